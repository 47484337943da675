#pragma once
#include "rows.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace jsonl {

/// Which rows hold conversations, from their text alone: all of a file can be looked through before its first sample.
class Conversations {
 public:
  /// `has_turns`: there is a template, by which an instruction with its output is a conversation, too.
  Conversations(const Rows& file, bool pairs, bool has_turns);
  /// A row whose column is null is none.
  bool is_one(std::int64_t index) const;
  bool any(std::int64_t rows) const;

 private:
  const Rows& file_;
  std::vector<std::string> keys_;  // with their quotation marks, which have backslashes inside of a text
};

}  // namespace jsonl
