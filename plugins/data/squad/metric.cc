#include "metric.h"

#include "unicode.h"

#include <algorithm>
#include <map>

namespace squad {
namespace {

// Python's string.punctuation.
bool is_ascii_punctuation(char32_t c) {
  return (c >= U'!' && c <= U'/') || (c >= U':' && c <= U'@') || (c >= U'[' && c <= U'`') || (c >= U'{' && c <= U'~');
}

// re.sub(r"\b(a|an|the)\b", " ", text). Both ends are at a word boundary and an article has word characters only, so a
// match is always a complete word.
std::u32string without_articles(const std::u32string& text) {
  std::u32string out;
  for (auto at = text.begin(); at != text.end();) {
    if (!is_word(*at)) {
      out += *at++;
      continue;
    }
    const auto end = std::find_if_not(at, text.end(), is_word);
    const std::u32string_view word(at, end);
    out += word == U"a" || word == U"an" || word == U"the" ? std::u32string_view(U" ") : word;
    at = end;
  }
  return out;
}

using Words = std::vector<std::u32string>;

double f1_of(const Words& predicted, const Words& expected) {
  std::map<std::u32string, int> left;
  for (const auto& word : expected) ++left[word];
  double same = 0;
  for (const auto& word : predicted) {
    const auto found = left.find(word);
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++same;
  }
  if (same == 0) return 0.0;
  const double precision = same / static_cast<double>(predicted.size());
  const double recall = same / static_cast<double>(expected.size());
  return 2 * precision * recall / (precision + recall);
}

}  // namespace

std::vector<std::u32string> normalized_words(std::string_view answer) {
  auto text = lower(characters(answer));
  std::erase_if(text, is_ascii_punctuation);
  text = without_articles(text);
  std::vector<std::u32string> words;
  for (auto at = text.begin();;) {
    at = std::find_if_not(at, text.end(), is_space);
    if (at == text.end()) return words;
    const auto end = std::find_if(at, text.end(), is_space);
    words.emplace_back(at, end);
    at = end;
  }
}

double exact_match(std::string_view prediction, std::string_view reference) {
  return normalized_words(prediction) == normalized_words(reference) ? 1.0 : 0.0;
}

double f1(std::string_view prediction, std::string_view reference) {
  return f1_of(normalized_words(prediction), normalized_words(reference));
}

std::string_view predicted_answer(std::string_view text) { return text.substr(0, text.find('\n')); }

capstan::monitor::Values scores(std::string_view text, const std::vector<std::string>& references,
                                const std::optional<std::string>& no_answer) {
  if (references.empty()) return {};
  const auto none = no_answer ? normalized_words(*no_answer) : Words();
  const auto words_of = [&](std::string_view answer) {
    auto words = normalized_words(answer);
    return no_answer && words == none ? Words() : words;
  };
  std::vector<Words> expected;
  for (const auto& reference : references) expected.push_back(words_of(reference));
  if (no_answer) {
    std::erase_if(expected, [](const Words& words) { return words.empty(); });
    if (expected.empty()) expected.emplace_back();
  }
  const auto predicted = words_of(predicted_answer(text));
  double best_match = 0;
  double best_f1 = 0;
  for (const auto& words : expected) {
    const double match = predicted == words ? 1 : 0;
    const bool is_empty = predicted.empty() || words.empty();
    best_match = std::max(best_match, match);
    best_f1 = std::max(best_f1, no_answer && is_empty ? match : f1_of(predicted, words));
  }
  return {{"exact_match", 100 * best_match}, {"f1", 100 * best_f1}};
}

}  // namespace squad
