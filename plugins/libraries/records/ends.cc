#include "ends.h"

namespace jsonl {

void warn_of_ends(const capstan::data::DataSource& source, const Rows& file,
                  const capstan::tokenizer::Tokenizer& tokenizer, const Conversations& conversations,
                  tokens::EndWarnings& warnings) {
  const auto where = [&](std::int64_t line) { return file.where(line); };
  // A conversation's template says what ends it.
  const auto wants_end = [&](std::int64_t line, const auto&) { return !conversations.is_one(line); };
  warnings.warn(source, {tokenizer, where, wants_end});
}

}  // namespace jsonl
