#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "assembly/samples.h"
#include "data/batches.h"
#include "data/collate.h"
#include "data/fit.h"

CAPSTAN_BEGIN_NAMESPACE
namespace inference {

/// A step's micro-batches of this data coordinate, in host memory.
struct StepInput {
  std::int64_t step = 0;
  std::vector<data::HostBatch> micro;
  std::int64_t target_tokens = 0;
  std::int64_t real_tokens = 0;
  std::int64_t padded_tokens = 0;
  std::int64_t samples = 0;         ///< rows that are not empty
  std::int64_t without_target = 0;  ///< samples that were left out, since none of their tokens bears loss
};

/// What a feed draws from, for which data coordinate, and how it puts samples side by side.
struct FeedSource {
  const assembly::Samples& samples;  ///< must outlive the feed
  data::BatchShape batch;
  std::int64_t coordinate = 0;
  data::ModelBounds bounds;
  std::int64_t pad_to_multiple = 1;
  bool packing = false;
  bool skips_no_target = false;  ///< leave samples without a target out, instead of refusing them
};

/// Draws samples, checks them against the model and puts them side by side, or with data.packing one after another.
/// One thread.
class Feed {
 public:
  explicit Feed(FeedSource source);
  /// Throws Error for a sample of which no token bears loss, unless these are left out.
  StepInput draw(std::int64_t step);
  bool skips_no_target() const { return source_.skips_no_target; }
  /// Rows of a split (indices, -1 = empty) as one batch.
  data::HostBatch rows(const data::DataSource& source, const std::vector<std::int64_t>& samples) const;

 private:
  bool bears_loss(const data::Sample& sample) const;
  data::HostBatch batch_of(const std::vector<data::Row>& rows) const;

  FeedSource source_;
  data::Batches batches_;
  data::Padding padding_;
};

/// A batch of rows that hold a sample each, as one list of int64, which one copy brings to a device: tokens, labels,
/// sample ids, lengths, data::loss_row_list, and the step. In host memory, which is pinned if asked for.
at::Tensor numbers_of(const data::HostBatch& host, std::int64_t step, bool pinned);
/// The batch that such a list describes: views of it, and what follows from them.
nn::Batch batch_of(const at::Tensor& numbers, std::int64_t rows, std::int64_t cols);
/// The batch as tensors on the device.
nn::Batch to_device(const data::HostBatch& host, c10::Device device);
/// The same as a micro-step trains on it: dropout acts, with the masks of this step.
nn::Batch training_batch(const data::HostBatch& host, std::uint64_t seed, std::int64_t step, c10::Device device);

}  // namespace inference
CAPSTAN_END_NAMESPACE
