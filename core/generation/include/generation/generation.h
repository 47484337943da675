#pragma once
#include <capstan/base/export.h>
#include <capstan/execution/evaluation.h>

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/side_library.h"

CAPSTAN_BEGIN_NAMESPACE
namespace data {
class DataSource;
}
namespace step {
struct Session;
}
namespace step {
class StopAgreement;
}
namespace generation {

/// Where generation starts.
struct Prompt {
  std::vector<std::int64_t> tokens;
  std::int64_t id = 0;  ///< run-wide; what draws are keyed by
};

/// The door of libcapstan_generation: what the rest of Capstan has of it. Calls are collectives over the world.
class Generation {
 public:
  virtual ~Generation() = default;

  /// Answers to the first `samples` questions of a split (-1: all), and their scores. A sample without a prompt is no
  /// question, unless it has references: it counts then, with an empty answer. With an `agreement` it throws Stopped,
  /// on all ranks after the same prompts, when one is asked to stop.
  virtual execution::Evaluation answers(step::Session& session, const data::DataSource& source, std::int64_t samples,
                                        const step::StopAgreement* agreement) const = 0;
  /// {id: text} as JSON, white space around a text left out: what SQuAD's official script reads. Each answer stands in
  /// it: one without an id as "question 4", by its index, and one whose id an earlier one has as "ID (question 4)".
  virtual std::string predictions_text(const std::vector<execution::Answer>& answers) const = 0;
  /// Texts that continue prompts which every rank has, divided among the data coordinates, train.eval_batch at once; on
  /// every rank.
  virtual std::vector<std::string> texts(step::Session& session, const std::vector<Prompt>& prompts,
                                         const execution::AnswerEnd& end) const = 0;
};

/// The library, which the first call opens.
inline const Generation& library() { return plugin::door_of<Generation>("generation"); }

}  // namespace generation
CAPSTAN_END_NAMESPACE
