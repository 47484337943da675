#pragma once
#include <capstan/base/error.h>
#include <capstan/config/value.h>

#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace config {

/// One key of a TOML file: a table's head, or a value with the whole path to it.
struct Item {
  std::vector<std::string> path;
  std::optional<Value> value;  ///< nothing: a table
  bool is_empty_table = false;
  Origin origin;
  std::string text = {};  ///< command line only: the value as typed
};

/// Reads a file's keys in its own order. Values that no option can have (dates, mixed lists, lists of tables)
/// are added to `diagnostics`. Throws Error, with file and line, when the file cannot be read or is no TOML.
std::vector<Item> read_toml(const std::string& file, Diagnostics& diagnostics);

/// The same of a text; `file` is what messages call it.
std::vector<Item> parse_toml(const std::string& content, const std::string& file, Diagnostics& diagnostics);

/// Reads one command-line override, "train.max_steps=250". The value is read as TOML, and is a string as typed, with
/// its white space, if that fails ("model.path=/models/gpt"); blanks after '=' belong to it unless one stands before
/// '=', too. Nothing but white space after '=' unsets the option. No item and a diagnostic when the text is malformed.
std::vector<Item> read_override(const std::string& text, Diagnostics& diagnostics);

}  // namespace config
CAPSTAN_END_NAMESPACE
