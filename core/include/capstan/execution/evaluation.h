#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace execution {

/// What ends an answer, besides the tokenizer's end tokens.
struct AnswerEnd {
  /// Where, or npos; may be null. It sees an answer each time that a token was added, and once more when it is whole,
  /// on the ranks that compute it.
  std::function<std::size_t(std::string_view text)> text;
  std::vector<std::int64_t> ids;
};

/// An answer that was generated.
struct Answer {
  std::int64_t index = 0;  ///< the question's place in its split
  std::string id;
  std::string prompt;  ///< given for a split's first few questions only
  std::string text;
  std::vector<std::string> references;
};

/// Loss, scores and answers of a split; sums are over all ranks, each sample counted once.
struct Evaluation {
  double loss = 0;
  std::int64_t samples = 0;
  double runtime_s = 0;
  monitor::Values scores;       ///< means over all questions that were asked
  std::vector<Answer> answers;  ///< all ranks' answers, in the split's order, on every rank
};

/// {id: text} as JSON, white space around a text left out: what SQuAD's official script reads. Each answer stands in
/// it: one without an id as "question 4", by its index, and one whose id an earlier one has as "ID (question 4)".
std::string predictions_text(const std::vector<Answer>& answers);

}  // namespace execution
CAPSTAN_END_NAMESPACE
