#include "turn_end.h"

#include <capstan/base/text.h>

#include <algorithm>

namespace jsonl {

TurnEnd turn_end(const std::string& written, const capstan::tokenizer::Tokenizer& tokenizer) {
  const auto marks = capstan::trim(written);
  if (marks.empty()) return {written.find('\n') == std::string::npos ? std::string() : written, {}};
  const auto ids = tokenizer.encode(marks);
  // A special token. Twice, since the first piece of a text may lose a space, which may be all that it has.
  const auto silent = std::find_if(ids.begin(), ids.end(), [&](std::int64_t id) {
    return tokenizer.decode({id, id}).empty();
  });
  // As the tokenizer decodes it, which may differ.
  TurnEnd end{capstan::trim(tokenizer.decode({ids.begin(), silent})), {}};
  if (silent != ids.end()) end.ids.push_back(*silent);
  return end;
}

}  // namespace jsonl
