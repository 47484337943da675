#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <vector>

#include "step/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// Counts of what a step computes, for one data coordinate or for all.
struct StepCounts {
  std::int64_t target_tokens = 0, real_tokens = 0, padded_tokens = 0;
  std::int64_t samples = 0;         ///< places that are not empty
  std::int64_t without_target = 0;  ///< samples that were left out, since none of their tokens bears loss
};

/// A step's micro-batches of this data coordinate, in host memory.
struct StepInput : StepCounts {
  std::int64_t step = 0;
  std::vector<data::HostBatch> micro;
  std::vector<double> counts;   ///< what the objective divides by, summed over the micro-batches
  std::vector<double> sources;  ///< tokens of each of the data's sources; empty: they have none
};

/// Draws a job's samples for this rank's data coordinate, checks them against the model and puts them side by side, or
/// with data.packing one after another. Where a step has several micro-steps, and with train.sort_by_length, its
/// samples are put in order of length first; so each rank reads those of all ranks once, to know how long they are. One
/// thread.
class Feed {
 public:
  /// `job` must outlive it.
  explicit Feed(const job::Job& job);
  /// Throws Error for a sample without a token that bears loss, unless these are left out.
  StepInput draw(std::int64_t step);
  /// Samples without a target are left out, instead of refused.
  bool skips_no_target() const { return job_.plugins.data_parts.options->no_target == "skip"; }
  /// Samples of a split, the shortest first: neighbours need little padding.
  std::vector<std::int64_t> by_length(const data::DataSource& source, std::vector<std::int64_t> samples) const;
  /// Samples of a split (indices, -1 = empty) as one batch.
  data::HostBatch rows(const data::DataSource& source, const std::vector<std::int64_t>& samples) const;

 private:
  std::vector<data::Slot> slots_of(std::int64_t step);
  data::Sample checked_sample(const data::DataSource& source, std::int64_t index) const;
  bool bears_loss(const data::Sample& sample) const;
  /// With `counts`, to which it adds, samples without a target are left out.
  data::HostBatch batch_of(const data::DataSource& source, const std::vector<data::Slot>& slots,
                           StepCounts* counts) const;
  data::HostBatch side_by_side(std::vector<data::Row> rows, const std::vector<std::size_t>& only) const;

  const job::Job& job_;
  data::Batches batches_;
  data::Padding padding_;
  std::vector<std::int32_t> lengths_;  // training samples' that were asked for, else 0
};

}  // namespace step
CAPSTAN_END_NAMESPACE
