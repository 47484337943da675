#include "columns.h"

#include <capstan/base/text.h>

#include <algorithm>

namespace jsonl {

using capstan::cat;

namespace {

const std::vector<std::string>& keys_of_forms() {
  static const std::vector<std::string> keys{"id",       "prompt",        "completion",  "messages", "text",  "chosen",
                                             "rejected", "conversations", "instruction", "input",    "output"};
  return keys;
}

}  // namespace

Columns::Columns(const std::vector<std::string>& texts, const std::string& name, const std::string& where,
                 capstan::Diagnostics& diagnostics) {
  for (const auto& text : texts) {
    const auto sign = text.find('=');
    const Entry entry{capstan::trim(text.substr(0, sign)),
                      sign == text.npos ? std::string() : capstan::trim(text.substr(sign + 1))};
    const auto& known = keys_of_forms();
    const auto is_same = [&](const Entry& other) { return other.key == entry.key || other.column == entry.column; };
    if (entry.key.empty() || entry.column.empty()) {
      diagnostics.add(where, cat(name, " has \"", text, R"(", which is not "KEY = COLUMN")"),
                      R"(write a form's key and the file's column, such as "prompt = question")");
    } else if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
      diagnostics.add(where, cat(name, " has \"", text, "\", and no form has the key '", entry.key, "'"),
                      capstan::suggestion(entry.key, known));
    } else if (std::any_of(entries_.begin(), entries_.end(), is_same)) {
      diagnostics.add(where, cat(name, " has \"", text, "\", and its key or its column is said before"),
                      "say each once");
    } else {
      entries_.push_back(entry);
    }
  }
}

std::string Columns::column_of(std::string_view key) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& one) { return one.key == key; });
  return found == entries_.end() ? std::string(key) : found->column;
}

}  // namespace jsonl
