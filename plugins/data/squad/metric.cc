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
  const auto predicted = normalized_words(prediction);
  const auto expected = normalized_words(reference);
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

std::string_view predicted_answer(std::string_view text) { return text.substr(0, text.find('\n')); }

capstan::monitor::Values scores(std::string_view text, const std::vector<std::string>& references) {
  if (references.empty()) return {};
  const auto prediction = predicted_answer(text);
  double best_match = 0;
  double best_f1 = 0;
  for (const auto& reference : references) {
    best_match = std::max(best_match, exact_match(prediction, reference));
    best_f1 = std::max(best_f1, f1(prediction, reference));
  }
  return {{"exact_match", 100 * best_match}, {"f1", 100 * best_f1}};
}

}  // namespace squad
