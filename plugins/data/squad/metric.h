#pragma once
#include <capstan/monitor/monitor.h>

#include <optional>
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

/// {"exact_match", "f1"} of a generated text, each x100 and the best over the references, as SQuAD v1.1's metric has
/// them. Empty without references.
///
/// With `no_answer`, the text that says that a question has no answer, as v2.0's (evaluate-v2.0.py) has them, to which
/// that text is an empty answer, of the model's and of references: a question without an answer is answered by it or by
/// nothing, references without a word do not count, and two empty answers agree, by F1 too.
capstan::monitor::Values scores(std::string_view text, const std::vector<std::string>& references,
                                const std::optional<std::string>& no_answer = {});

}  // namespace squad
