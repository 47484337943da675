#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace data {

/// What a source is told when it is asked for an order.
struct OrderRequest {
  std::uint64_t seed = 0;  ///< run.seed
  bool shuffle = true;     ///< train.shuffle
  std::int64_t global_batch = 1;
  std::optional<std::int64_t> max_steps = {};  ///< train.max_steps
};

/// The order in which training sees a source's samples, where that is not each of them once an epoch. All that it says
/// follows from the request, the source and the arguments, since each rank makes its own, and a run that resumes
/// begins with any epoch and place. Used by one thread.
class SampleOrder {
 public:
  virtual ~SampleOrder();
  /// How many samples an epoch sees: fewer than the source has, or more. At least 1.
  virtual std::int64_t samples_per_epoch() const = 0;
  /// A batch, or the part of one that an epoch's last samples fill: the indices, in the source, of `count` places of an
  /// epoch from `first` on. An index may come again.
  virtual std::vector<std::int64_t> samples(std::int64_t epoch, std::int64_t first, std::int64_t count) = 0;
  /// What people are told of it before the first step, in lines; empty: nothing.
  virtual std::string text() const { return {}; }
};

/// All of [0, samples): ascending, or with `shuffle` a permutation that depends only on (seed, epoch, samples), the
/// same on every machine. O(samples) time and memory.
std::vector<std::int64_t> epoch_order(std::int64_t samples, std::uint64_t seed, std::int64_t epoch, bool shuffle);

}  // namespace data
CAPSTAN_END_NAMESPACE
