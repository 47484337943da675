#include "data/eval_plan.h"

#include <capstan/base/error.h>

namespace capstan::data {

std::int64_t EvalPlan::batches() const {
  const auto at_once = data_parallel_size * batch;
  CAPSTAN_ASSERT(at_once > 0);
  return (samples + at_once - 1) / at_once;
}

std::vector<std::int64_t> EvalPlan::rows(std::int64_t index, std::int64_t coordinate) const {
  std::vector<std::int64_t> rows;
  const auto first = (index * data_parallel_size + coordinate) * batch;
  for (auto sample = first; sample < first + batch; ++sample) rows.push_back(sample < samples ? sample : -1);
  return rows;
}

}  // namespace capstan::data
