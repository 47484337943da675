#include "generation/answer_rows.h"

#include <capstan/base/error.h>

#include <algorithm>

namespace capstan::generation {

AnswerRows::AnswerRows(const std::vector<Prompt>& prompts, const Limits& limits)
    : prompts_(prompts), limits_(limits), answers_(prompts.size()) {
  const auto length = [&](std::size_t i) { return static_cast<std::int64_t>(prompts[i].tokens.size()); };
  for (std::size_t i = prompts.size(); i-- > 0;) {
    if (length(i) >= 1 && length(i) <= limits.positions) waiting_.push_back(i);
  }
  std::stable_sort(waiting_.begin(), waiting_.end(),
                   [&](std::size_t a, std::size_t b) { return length(a) < length(b); });
  const auto used = std::min<std::int64_t>(std::ssize(waiting_), limits.rows);
  rows_.resize(static_cast<std::size_t>(std::max(used, limits.least)));
}

std::int64_t AnswerRows::longest() const {
  return waiting_.empty() ? 1 : static_cast<std::int64_t>(prompts_[waiting_.back()].tokens.size());
}

bool AnswerRows::is_due() const {
  constexpr std::size_t parts = 4;
  const auto free = std::count_if(rows_.begin(), rows_.end(), [](const Row& row) { return !row.alive; });
  const auto next = std::min(waiting_.size(), static_cast<std::size_t>(free));
  return next > 0 && (next == waiting_.size() || next * parts >= rows_.size());
}

std::vector<std::int64_t> AnswerRows::begin() {
  std::vector<std::int64_t> begun;
  for (std::size_t i = 0; i < rows_.size() && !waiting_.empty(); ++i) {
    if (rows_[i].alive) continue;
    const auto prompt = waiting_.back();
    waiting_.pop_back();
    rows_[i] = {prompt, static_cast<std::int64_t>(prompts_[prompt].tokens.size()), true};
    begun.push_back(static_cast<std::int64_t>(i));
  }
  return begun;
}

// The last token of an answer need not be at a position.
std::int64_t AnswerRows::room_for(const Row& row) const {
  const auto has = static_cast<std::int64_t>(answers_[row.prompt].size());
  return std::min(limits_.tokens - has, limits_.positions - row.length + 1);
}

std::int64_t AnswerRows::missing() const {
  std::int64_t most = 0;
  for (const auto& row : rows_) {
    if (row.alive) most = std::max(most, room_for(row));
  }
  return most;
}

const std::vector<std::int64_t>& AnswerRows::append(std::int64_t at, std::int64_t token) {
  auto& row = rows_[static_cast<std::size_t>(at)];
  CAPSTAN_ASSERT(row.alive);
  auto& answer = answers_[row.prompt];
  answer.push_back(token);
  ++row.length;
  row.alive = room_for(row) > 0;
  return answer;
}

}  // namespace capstan::generation
