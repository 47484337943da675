#pragma once
#include <capstan/base/error.h>
#include <capstan/config/options.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "config/toml_reader.h"

CAPSTAN_BEGIN_NAMESPACE
namespace config {

/// The tables that a configuration may have: "run", "model", "data", "tokenizer", "train", "optimizer", "objective",
/// "comm", "checkpoint".
const std::vector<std::string>& table_names();
/// The tables that hold one table per plugin: "strategy", "monitor".
const std::vector<std::string>& group_names();

/// A configuration with all its layers merged. Immutable.
class Document {
 public:
  Document(std::string file, std::vector<Section> sections) : file_(std::move(file)), sections_(std::move(sections)) {}

  /// The file that was loaded, as it was given.
  const std::string& file() const { return file_; }
  /// One of table_names(); empty, with the file as its origin, when the configuration does not have it.
  Section section(const std::string& table) const;
  /// The tables of one of group_names(), by name, empty ones too: "strategy.fsdp", "strategy.zero".
  std::vector<Section> children(const std::string& group) const;
  /// The tables of commands, by name.
  std::vector<Section> of_commands() const;

 private:
  std::string file_;
  std::vector<Section> sections_;
};

/// Is this the table of a command, which core knows nothing of?
using IsCommand = std::function<bool(const std::string& table)>;

/// Reads a configuration: what `extends` names first, then the file, then `overrides` ("train.max_steps=250");
/// later layers win, table by table, and each value keeps its own origin. Without a file (an empty path) there are only
/// overrides. A table that is none of table_names() is refused unless `is_command` says that it is one's. Faults are
/// added to `diagnostics`. Throws Error (with those found so far) when a file is missing or is no TOML: checks of the
/// rest would mislead. `settled`: values that stand for options which say "auto", over all layers.
Document load(const std::filesystem::path& file, const std::vector<std::string>& overrides, Diagnostics& diagnostics,
              const IsCommand& is_command = {}, const std::vector<Item>& settled = {});

/// The same of a text of TOML that a program wrote, as a checkpoint's manifest has one; `name` is its file in messages.
Document parse(const std::string& text, const std::string& name, Diagnostics& diagnostics);

}  // namespace config
CAPSTAN_END_NAMESPACE
