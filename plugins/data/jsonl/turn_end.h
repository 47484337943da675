#pragma once
#include <capstan/tokenizer/tokenizer.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace jsonl {

/// How one sees that the assistant's turn is over: a text that stands in what was generated, or an id without text.
/// Either may be missing.
struct TurnEnd {
  std::string text;
  std::vector<std::int64_t> ids;

  /// Where it begins in a generated text, or npos.
  std::size_t find(std::string_view answer) const { return text.empty() ? answer.npos : answer.find(text); }
};

/// Of what the template writes behind the assistant's message. White space around it says nothing; an end of nothing
/// else is one if it holds a line break, since a space may stand in any answer.
TurnEnd turn_end(const std::string& written, const capstan::tokenizer::Tokenizer& tokenizer);

}  // namespace jsonl
