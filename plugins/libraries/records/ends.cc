#include "ends.h"

#include <string_view>

namespace jsonl {

void warn_of_ends(const capstan::data::DataSource& source, const Rows& file,
                  const capstan::tokenizer::Tokenizer& tokenizer, bool pairs, tokens::EndWarnings& warnings) {
  // Inside of a text the quotation marks have backslashes. A conversation's template says what ends it.
  const std::string_view key = pairs ? R"("role")" : R"("messages")";
  const auto where = [&](std::int64_t line) { return file.where(line); };
  const auto wants_end = [&](std::int64_t line, const auto&) {
    return file.line(line).find(key) == std::string_view::npos;
  };
  warnings.warn(source, {tokenizer, where, wants_end});
}

}  // namespace jsonl
