#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "generation/generation.h"

CAPSTAN_BEGIN_NAMESPACE
namespace generation {

/// The rows of a batch whose answers grow, and the prompts that wait for a row: when an answer has ended, its row takes
/// another prompt. The longest prompts come first. So those that begin together need little padding, later ones have
/// room in the memory of the first, and what runs out of memory does so at once. Asks no device.
class AnswerRows {
 public:
  struct Limits {
    std::int64_t rows = 1;       ///< at most
    std::int64_t tokens = 1;     ///< an answer has no more
    std::int64_t positions = 1;  ///< the model has no more
    std::int64_t least = 1;      ///< rows, if need be without a prompt
  };
  struct Row {
    std::size_t prompt = 0;   ///< index of the prompt
    std::int64_t length = 1;  ///< tokens of the prompt and of its answer so far
    bool alive = false;       ///< its answer has not ended
  };
  /// A prompt that is empty, or longer than the model's positions, gets no row, and its answer is empty. `prompts` must
  /// outlive it.
  AnswerRows(const std::vector<Prompt>& prompts, const Limits& limits);

  /// As many as there is use for, or Limits::least.
  std::int64_t count() const { return static_cast<std::int64_t>(rows_.size()); }
  const Row& at(std::int64_t row) const { return rows_[static_cast<std::size_t>(row)]; }
  const Prompt& prompt(std::int64_t row) const { return prompts_[at(row).prompt]; }
  /// Tokens of the longest prompt that waits; 1 without one.
  std::int64_t longest() const;
  /// Is it worth a forward to begin prompts now? It is where they fill a quarter of the rows, or none would wait then.
  bool is_due() const;
  /// Begins prompts in the rows that are free: which rows those are, ascending. None where no prompt waits.
  std::vector<std::int64_t> begin();
  /// The most tokens that an answer may still get; 0 when all have ended.
  std::int64_t missing() const;
  /// Appends to the answer of a row that is alive: all of it. The row ends where it may not grow.
  const std::vector<std::int64_t>& append(std::int64_t row, std::int64_t token);
  void end(std::int64_t row) { rows_[static_cast<std::size_t>(row)].alive = false; }
  /// The answers, in the prompts' order.
  const std::vector<std::vector<std::int64_t>>& answers() const { return answers_; }

 private:
  std::int64_t room_for(const Row& row) const;

  const std::vector<Prompt>& prompts_;
  Limits limits_;
  std::vector<std::size_t> waiting_;  // the next one last
  std::vector<Row> rows_;
  std::vector<std::vector<std::int64_t>> answers_;
};

}  // namespace generation
CAPSTAN_END_NAMESPACE
