#pragma once
#include "record.h"

namespace jsonl {

/// A line with two answers to one prompt. In both records only the answer is learned.
struct Pair {
  Record chosen;
  Record rejected;
};

/// Reads a line {"prompt", "chosen", "rejected"}: all are texts, or all are lists of messages. Without a "prompt",
/// "chosen" and "rejected" are whole conversations, which begin with the same messages: these are the prompt. Of an
/// answer of several messages the assistant's are learned. `numbers` are as read_record has them; the chosen
/// record has all `others`. Throws Error at "FILE:LINE" that says what is wrong and what a line may be.
Pair read_pair(const Rows& file, std::int64_t index, const Turns& turns, const std::vector<std::string>& numbers = {});

}  // namespace jsonl
