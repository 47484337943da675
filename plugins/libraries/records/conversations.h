#pragma once
#include "rows.h"
#include "template.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace jsonl {

/// Which rows hold conversations, from their text alone: all of a file can be looked through before its first sample.
class Conversations {
 public:
  /// With turns an instruction and its output are a conversation, too; the model's own template also writes prompts and
  /// completions that are lists of messages.
  Conversations(const Rows& file, bool pairs, const Turns& turns);
  /// A row whose column is null is none.
  bool is_one(std::int64_t index) const;
  bool any(std::int64_t rows) const;

 private:
  const Rows& file_;
  std::vector<std::string> keys_;  // with their quotation marks, which have backslashes inside of a text
};

}  // namespace jsonl
