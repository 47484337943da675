// Expected values were computed with the official evaluate-v1.1.py's functions under Python 3.11.
#include "plugins/data/squad/metric.h"

#include "plugins/data/squad/unicode.h"

#include <capstan_catch.h>

namespace metric_test {

using namespace squad;

namespace {

std::u32string normalized(const char* text) {
  std::u32string joined;
  for (const auto& word : normalized_words(text)) joined += (joined.empty() ? U"" : U" ") + word;
  return joined;
}

}  // namespace

TEST_CASE("answers are normalised as the official script does it") {
  CHECK(normalized("The  Eiffel\tTower!") == U"eiffel tower");
  CHECK(normalized("an apple a day") == U"apple day");
  CHECK(normalized("Anthem, thesis; a-b") == U"anthem thesis ab");  // articles only as whole words
  CHECK(normalized("the-cat") == U"thecat");                        // punctuation goes first
  CHECK(normalized("the.") == U"");
  CHECK(normalized("\u201CThe\u201D end") == U"\u201C \u201D end");     // only ASCII punctuation is deleted
  CHECK(normalized("the\u00A0cat\u2003sat\u3000\x1F!") == U"cat sat");  // white space is Unicode's
  CHECK(normalized("a_b the_c") == U"ab thec");
  CHECK(normalized("caf\u00C9 \u00C0 la") == U"caf\u00E9 \u00E0 la");
  CHECK(normalized("a\u0301 b") == U"\u0301 b");       // a combining mark is no word character
  CHECK(normalized("the\u00B2 x") == U"the\u00B2 x");  // a superscript digit is one
  CHECK(normalized("") == U"");
}

TEST_CASE("lower case is Python's, beyond ASCII too") {
  CHECK(lower(U"\u0130I") == U"i\u0307i");
  CHECK(lower(U"\u039F\u0394\u039F\u03A3") == U"\u03BF\u03B4\u03BF\u03C2");  // final sigma
  CHECK(lower(U"\u03A3\u0391") == U"\u03C3\u03B1");
  CHECK(lower(U"\u03A3") == U"\u03C3");                  // no letter before it
  CHECK(lower(U"A\u0301\u03A3.") == U"a\u0301\u03C2.");  // marks and full stops don't count
  CHECK(lower(U"A\u03A3.B") == U"a\u03C3.b");
  CHECK(lower(U"\u0100\u0101\u0178\u1E9E") == U"\u0101\u0101\u00FF\u00DF");
  CHECK(lower(U"\U00010400\U0001E921") == U"\U00010428\U0001E943");
}

TEST_CASE("text is taken apart into characters; ill-formed bytes don't stop it") {
  CHECK(characters("a\u00E9\u6F22\U0001F600") == U"a\u00E9\u6F22\U0001F600");
  CHECK(characters("a\xC3") == U"a\uFFFD");
  CHECK(characters("\xFF\x80z") == U"\uFFFD\uFFFDz");
}

TEST_CASE("exact match and F1") {
  CHECK(exact_match("the Eiffel tower.", "Eiffel Tower") == 1.0);
  CHECK(exact_match("Eiffel", "Eiffel Tower") == 0.0);
  CHECK(f1("Eiffel", "Eiffel Tower") == Approx(2.0 / 3.0).epsilon(1e-15));
  CHECK(f1("b b c", "b c c d") == Approx(4.0 / 7.0).epsilon(1e-15));  // multisets: 2 in common
  CHECK(f1("x", "y") == 0.0);
  // Both normalise to nothing: the official script says EM 1 and F1 0.
  CHECK(exact_match("the", "an") == 1.0);
  CHECK(f1("the", "an") == 0.0);
  CHECK(f1("", "y") == 0.0);
}

TEST_CASE("a question's score is its first line's best over the references") {
  const auto best = scores(" Paris\nQuestion: next", {"London", "paris", "Paris, France"});
  REQUIRE(best.size() == 2);
  CHECK(best[0] == std::pair<std::string, double>{"exact_match", 100.0});
  CHECK(best[1] == std::pair<std::string, double>{"f1", 100.0});
  // Exact match and F1 may come from different references.
  const auto partly = scores("the city of Paris", {"Rome", "Paris", "Paris city"});
  CHECK(partly[0].second == 0.0);
  CHECK(partly[1].second == Approx(80.0).epsilon(1e-15));
  CHECK(scores("\nParis", {"Paris"})[0].second == 0.0);
  CHECK(scores("Paris", {}).empty());
}

TEST_CASE("where questions may have no answer, version 2.0's rule holds") {
  const auto both = [](const char* text, const std::vector<std::string>& references) {
    const auto values = scores(text, references, "No answer");
    return std::pair(values.at(0).second, values.at(1).second);
  };
  const std::pair right{100.0, 100.0}, wrong{0.0, 0.0};
  CHECK(both("no answer.\nmore", {"No answer"}) == right);
  CHECK(both("", {"No answer"}) == right);
  CHECK(both("the", {"No answer"}) == right);  // without a word
  CHECK(both("answer", {"No answer"}) == wrong);
  CHECK(both("", {"Paris"}) == wrong);
  CHECK(both("no answer", {"Paris", "no"}) == wrong);
  CHECK(both("Rome", {"the", "Paris"}) == wrong);  // a reference without a word does not count
  CHECK(both("", {"the", "Paris"}) == wrong);
  CHECK(both("", {"the", "!"}) == right);
  CHECK(both("Paris city", {"Paris"}).second == Approx(200.0 / 3).epsilon(1e-15));
}

}  // namespace metric_test
