#pragma once
#include <capstan/monitor/monitor.h>

#include <string>
#include <string_view>
#include <vector>

namespace squad {

/// The words of an answer as SQuAD v1.1's official metric compares them: lower case, ASCII punctuation deleted, the
/// articles a, an, the removed, split at white space. Characters are Unicode's, as in Python.
std::vector<std::u32string> normalized_words(std::string_view answer);

/// 1 when both normalise to the same words, else 0.
double exact_match(std::string_view prediction, std::string_view reference);
/// Harmonic mean of precision and recall over the two multisets of words; 0 when they share none (so also when both
/// are empty, although exact_match is 1 then).
double f1(std::string_view prediction, std::string_view reference);

/// The first line of a generated text, which is the answer.
std::string_view predicted_answer(std::string_view text);

/// {"exact_match", "f1"} of a generated text, each x100 and the best over the references. Empty without references.
capstan::monitor::Values scores(std::string_view text, const std::vector<std::string>& references);

}  // namespace squad
