#pragma once
#include <capstan/tokenizer/tokenizer.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace jsonl {

/// The end of the assistant's turn: a text in the generated answer, or an id without text. Either may be
/// missing.
struct TurnEnd {
  std::string text;
  std::vector<std::int64_t> ids;

  /// Where it begins in a generated text, or npos.
  std::size_t find(std::string_view answer) const { return text.empty() ? answer.npos : answer.find(text); }
};

/// From the template's text after the assistant's message. White space around it is ignored; white space alone ends a
/// turn only if it has a line break, since any answer may contain a space.
TurnEnd turn_end(const std::string& written, const capstan::tokenizer::Tokenizer& tokenizer);

}  // namespace jsonl
