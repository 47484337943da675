#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// Spreads the evaluation samples over the data coordinates: each sample is in exactly one row, and every
/// coordinate runs the same number of batches of the same number of rows, whatever is left over.
struct EvalPlan {
  std::int64_t samples = 0;
  std::int64_t data_parallel_size = 1;
  std::int64_t batch = 1;  ///< rows of one coordinate's batch

  /// Batches that every coordinate runs.
  std::int64_t batches() const {
    const auto at_once = data_parallel_size * batch;
    CAPSTAN_ASSERT(at_once > 0);
    return (samples + at_once - 1) / at_once;
  }
  /// The sample of each row of batch `index` on `coordinate`; -1 = an empty row.
  std::vector<std::int64_t> rows(std::int64_t index, std::int64_t coordinate) const {
    std::vector<std::int64_t> out;
    const auto first = (index * data_parallel_size + coordinate) * batch;
    for (auto sample = first; sample < first + batch; ++sample) out.push_back(sample < samples ? sample : -1);
    return out;
  }
  /// The samples of all of a coordinate's batches.
  std::vector<std::int64_t> rows_of(std::int64_t coordinate) const {
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < batches(); ++i) {
      for (const auto row : rows(i, coordinate)) {
        if (row >= 0) out.push_back(row);
      }
    }
    return out;
  }
};

}  // namespace data
CAPSTAN_END_NAMESPACE
