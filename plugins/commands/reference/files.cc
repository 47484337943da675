#include <capstan/base/text.h>

#include <algorithm>
#include <map>
#include <utility>

#include "reference.h"

namespace reference {
namespace {

using namespace capstan;
using config::FileKey;
using config::FileKeys;

constexpr const char* about_files = R"(# Keys of other programs' files

<!-- Made by the program from its plugins' tables; `tools/check-binaries` compares. Do not edit. -->

A key that another program has written is used, or changes nothing that Capstan computes, or is refused. This page is
`capstan reference --files`. A key whose value is null counts as absent.
)";

std::string codes(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const auto& text : texts) out.push_back(code(text));
  return join(out);
}

std::string use_of(const FileKey& key) {
  switch (key.use) {
    case FileKey::Use::used:
      return "used";
    case FileKey::Use::neutral:
      return "changes nothing";
    case FileKey::Use::only:
      return "only " + codes(key.allowed);
    case FileKey::Use::refused:
      return "refused";
  }
  return {};
}

// Keys with the same fate share a row, in the order in which they first stand.
std::string rows_of(const std::vector<FileKey>& keys) {
  using Fate = std::pair<std::string, std::string>;
  std::vector<std::pair<Fate, std::vector<std::string>>> rows;
  for (const auto& key : keys) {
    const Fate fate{use_of(key), key.words};
    auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& one) { return one.first == fate; });
    if (row == rows.end()) row = rows.insert(row, {fate, {}});
    row->second.push_back(key.name);
  }
  std::string out = "| keys | are | why, or what to do |\n|---|---|---|\n";
  for (const auto& [fate, names] : rows)
    out += cat("| ", codes(names), " | ", fate.first, " | ", cell(fate.second), " |\n");
  return out;
}

// A model's options are keys of its config.json too: under their spellings, or under their own names where they have
// none.
std::string options_of(const plugin::Registration& model) {
  std::string out = "| option | in config.json |\n|---|---|\n";
  for (const auto& spec : model.schema) {
    auto names = spec.spellings;
    names.insert(names.begin(), spec.key);
    std::erase_if(names, [&](const auto& name) {
      return std::any_of(model.file_keys.begin(), model.file_keys.end(), [&](const auto& table) {
        const auto* key = table.file.starts_with("config.json of ") ? table.find(name) : nullptr;
        return key && key->use == FileKey::Use::neutral;
      });
    });
    out += cat("| ", code(spec.key), " | ", codes(names), " |\n");
  }
  return out;
}

std::string defaults_of(const plugin::Registration& model) {
  std::string out;
  for (const auto& [family, values] : model.file_defaults) {
    std::vector<std::string> texts;
    for (const auto& [key, value] : values) texts.push_back(cat(key, " = ", config::value_text(value)));
    out += cat("\nWhere a ", code(family), " file leaves a key out, transformers takes: ", codes(texts), ".\n");
  }
  return out;
}

}  // namespace

std::string files_markdown(const std::vector<plugin::Found>& plugins) {
  // By file; plugins of one library have some tables in common.
  std::map<std::pair<std::string, std::string>, std::pair<const FileKeys*, std::vector<std::string>>> tables;
  const auto all = of_kind(plugins, "");
  for (const auto* plugin : all) {
    for (const auto& table : plugin->file_keys) {
      auto& [shown, readers] = tables[{table.file, table.about}];
      shown = shown ? shown : &table;
      readers.push_back(plugin->name);
    }
  }
  std::string out = about_files;
  for (const auto& [name, shown] : tables) {
    const auto& [table, readers] = shown;
    out += cat("\n## ", cell(table->file), "\n\n", table->about, " Read by ", codes(readers), ". Unknown keys are ",
               table->unknown == FileKeys::Unknown::refused ? "refused" : "named once in a warning", ".\n\n",
               rows_of(table->keys));
  }
  for (const auto* model : of_kind(plugins, "model")) {
    if (model->file_keys.empty()) continue;
    out += cat("\n## Options of ", code(model->name), " in a config.json\n\n", options_of(*model), defaults_of(*model));
  }
  return out;
}

}  // namespace reference
