#include "conversations.h"

#include <algorithm>

namespace jsonl {
namespace {

std::string quoted(const std::string& key) { return '"' + key + '"'; }

// Whether the text has this key, of a value that is not null.
bool has(std::string_view row, std::string_view key) {
  const auto found = row.find(key);
  if (found == row.npos) return false;
  const auto value = std::min(row.find_first_not_of(" \t:", found + key.size()), row.size());
  return !row.substr(value).starts_with("null");
}

}  // namespace

Conversations::Conversations(const Rows& file, bool pairs, const Turns& turns) : file_(file) {
  if (pairs) {
    keys_ = {quoted("role"), quoted("from")};
    return;
  }
  for (const auto* key : {"messages", "conversations"}) keys_.push_back(quoted(file.columns().column_of(key)));
  if (turns.by_model) keys_.insert(keys_.end(), {quoted("role"), quoted("from")});
  if (!turns.empty()) keys_.push_back(quoted(file.columns().column_of("instruction")));
}

bool Conversations::is_one(std::int64_t index) const {
  const auto row = file_.line(index);
  return std::any_of(keys_.begin(), keys_.end(), [&](const auto& key) { return has(row, key); });
}

bool Conversations::any(std::int64_t rows) const {
  for (std::int64_t i = 0; i < rows; ++i) {
    if (is_one(i)) return true;
  }
  return false;
}

}  // namespace jsonl
