#include "train/control.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <array>

namespace capstan::train {
namespace {

using step::Requests;
using step::StepCounts;

// The numbers: counts, requests, whether a name is new; then the objective's counts and those of sources, each rank's
// time and monitors' pairs (value, present).
constexpr std::array counts{&StepCounts::target_tokens, &StepCounts::real_tokens, &StepCounts::padded_tokens,
                            &StepCounts::samples, &StepCounts::without_target};
constexpr std::array flags{&Requests::stop, &Requests::hurry, &Requests::time_is_up, &Requests::save};
constexpr auto new_name_flag = counts.size() + flags.size();
constexpr auto first_of_objective = new_name_flag + 1;

constexpr double not_measured = -1;

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void Control::start(const step::StepInput& input, const step::Requests& requests, const monitor::Values& monitors,
                    std::optional<double> collective_s) {
  CAPSTAN_ASSERT(!pending_);
  mine_.clear();
  for (const auto count : counts) mine_.push_back(counts_ ? static_cast<double>(input.*count) : 0.0);
  for (const auto flag : flags) mine_.push_back(requests.*flag ? 1.0 : 0.0);
  divisors_ = input.counts;
  divisors_.insert(divisors_.end(), input.sources.begin(), input.sources.end());
  sources_ = input.sources.size();
  if (!counts_) std::fill(divisors_.begin(), divisors_.end(), 0.0);
  monitors_ = monitors;
  times_.assign(static_cast<std::size_t>(world_->size()), 0);
  times_[static_cast<std::size_t>(world_->rank())] = collective_s.value_or(not_measured);
  start_sum(true);
}

void Control::start_sum(bool announce) {
  auto numbers = mine_;
  const bool news = announce && std::any_of(monitors_.begin(), monitors_.end(),
                                            [&](const auto& value) { return !contains(names_, value.first); });
  numbers.push_back(news ? 1.0 : 0.0);
  numbers.insert(numbers.end(), divisors_.begin(), divisors_.end());
  numbers.insert(numbers.end(), times_.begin(), times_.end());
  for (const auto& name : names_) {
    const auto found =
        std::find_if(monitors_.begin(), monitors_.end(), [&](const auto& value) { return value.first == name; });
    numbers.push_back(found == monitors_.end() ? 0.0 : found->second);
    numbers.push_back(found == monitors_.end() ? 0.0 : 1.0);
  }
  numbers_ = at::tensor(numbers, at::kDouble);
  pending_ = world_->start_all_reduce(numbers_, comm::ReduceOp::sum, "all-reduce step counts");
}

StepTotals Control::wait() {
  CAPSTAN_ASSERT(pending_);
  pending_->wait();
  pending_.reset();
  const auto* number = numbers_.const_data_ptr<double>();
  if (number[new_name_flag] > 0) {
    agree_on_names();
    start_sum(false);
    return wait();
  }
  StepTotals totals;
  for (std::size_t i = 0; i < counts.size(); ++i) totals.*counts[i] = static_cast<std::int64_t>(number[i]);
  for (std::size_t i = 0; i < flags.size(); ++i) totals.requests.*flags[i] = number[counts.size() + i] > 0;
  const auto* const first_rank = number + first_of_objective + divisors_.size();
  totals.objective.assign(number + first_of_objective, first_rank - sources_);
  totals.sources.assign(first_rank - sources_, first_rank);
  const auto* const first_monitor = first_rank + times_.size();
  totals.collective_s.assign(first_rank, first_monitor);
  if (std::find(totals.collective_s.begin(), totals.collective_s.end(), not_measured) != totals.collective_s.end())
    totals.collective_s.clear();
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const auto* pair = first_monitor + 2 * i;
    if (pair[1] > 0) totals.monitors.emplace_back(names_[i], pair[0] / pair[1]);
  }
  return totals;
}

// The union over ranks, in the order of ranks after the names that are known.
void Control::agree_on_names() {
  std::vector<std::string> mine;
  for (const auto& [name, number] : monitors_) mine.push_back(name);
  for (const auto& text : communicator_.exchange(join(mine, "\n"))) {
    for (auto& name : split(text, '\n')) {
      if (!name.empty() && !contains(names_, name)) names_.push_back(name);
    }
  }
}

}  // namespace capstan::train
