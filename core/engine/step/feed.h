#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>

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
  explicit Feed(const session::Job& job);
  /// Throws Error for a sample without a token that bears loss, unless these are left out.
  StepInput draw(std::int64_t step);
  /// Samples without a target are left out, instead of refused.
  bool skips_no_target() const { return job_.plugins.data_options->no_target == "skip"; }
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

  const session::Job& job_;
  data::Batches batches_;
  data::Padding padding_;
  std::vector<std::int32_t> lengths_;  // of training samples that were asked for, else 0
};

/// A batch as one list of 8-byte words, which one copy brings to a device: tokens, labels, sample ids, lengths,
/// data::loss_row_list, the step, and the fields that the data declares, where two float32 values share a word.
class BatchNumbers {
 public:
  /// Puts the list into host memory, which is pinned if asked for.
  BatchNumbers(const data::HostBatch& host, std::int64_t step, bool pinned);
  /// The same list on the device. Does not wait for the copy, which needs pinned memory, unless told to.
  BatchNumbers to(c10::Device device, bool non_blocking = true) const;
  /// Takes the numbers of a batch that has the same rows, columns, number of loss rows, and form of samples; does not
  /// wait for the copy.
  void copy(const BatchNumbers& other) { numbers_.copy_(other.numbers_, /*non_blocking=*/true); }
  /// The batch: views of the list, and what follows from them.
  nn::Batch batch() const;
  /// [1]: the step, a view of the list.
  at::Tensor step() const { return parts().at(step_part); }

 private:
  static constexpr std::size_t step_part = 5;
  std::vector<at::Tensor> parts() const { return numbers_.split_with_sizes(sizes_); }
  nn::Field field(std::size_t index, const at::Tensor& words) const;

  std::int64_t rows_, cols_, samples_, per_sample_;
  std::vector<data::FieldSpec> declared_;
  std::vector<std::int64_t> sizes_;  // words of each part, in the order that is named above
  at::Tensor numbers_;
};
/// The batch as tensors on the device, or this rank's columns of it.
nn::Batch to_device(const data::HostBatch& host, c10::Device device, const nn::SequenceCut& cut = {});
/// The same as a micro-step of the session trains on it: dropout acts, with the masks of this step.
nn::Batch training_batch(const session::Session& session, const data::HostBatch& host, std::int64_t step);

}  // namespace step
CAPSTAN_END_NAMESPACE
