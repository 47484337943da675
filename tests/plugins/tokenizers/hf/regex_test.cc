#include "plugins/tokenizers/hf/regex.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <chrono>

namespace regex_test {

using namespace hf;

TEST_CASE("a pattern's matches do not overlap, and an empty one is never where another ends") {
  const auto spans = [](const std::string& pattern, std::string_view text) {
    std::vector<std::pair<std::size_t, std::size_t>> out;
    for (const auto& span : Regex(pattern).matches(text)) out.emplace_back(span.begin, span.end);
    return out;
  };
  using Spans = std::vector<std::pair<std::size_t, std::size_t>>;
  CHECK(spans("aa", "aaaaa") == Spans{{0, 2}, {2, 4}});
  CHECK(spans("b*", "abbé") == Spans{{0, 0}, {1, 3}, {5, 5}});
  CHECK(spans(R"((?=(\d{3})+(?!\d)))", "1234567") == Spans{{1, 1}, {4, 4}});
  CHECK(spans("(?<=é)a", "aéa") == Spans{{3, 4}});  // what comes before a match counts
  CHECK(spans("x", "").empty());
  CHECK_THROWS_WITH(Regex("a)"), Contains("unmatched close parenthesis"));
}

TEST_CASE("a pattern that takes too long for a text is refused and shown in part") {
  const std::string text(20000, 'a');
  CHECK_THROWS_WITH(Regex("(?~a*)*").matches(text, std::chrono::milliseconds(50)),
                    Contains("cannot cut a text of 20000 bytes: it took too long, and had come to byte "));
  // 65,536 ways from each of its places, which is within the limit of each.
  CHECK_THROWS_WITH(Regex("(?:a|aa){1,15}b").matches(text + "cb"), Contains("retry-limit-in-search over"));
  CHECK(shown_pattern(std::string(1000, 'x')) == std::string(200, 'x') + " …");
}

}  // namespace regex_test
