#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "data/batches.h"
#include "data/collate.h"
#include "data/fit.h"
#include "setup/job.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// A step's micro-batches of this data coordinate, in host memory.
struct StepInput {
  std::int64_t step = 0;
  std::vector<data::HostBatch> micro;
  std::int64_t target_tokens = 0;
  std::int64_t real_tokens = 0;
  std::int64_t padded_tokens = 0;
  std::int64_t samples = 0;  ///< rows that are not empty
};

/// Draws samples, checks them against the model and puts them side by side, or with data.packing one behind another.
/// One thread.
class Feed {
 public:
  Feed(const setup::Job& job, std::int64_t coordinate);
  StepInput draw(std::int64_t step);
  /// Rows of a split (indices, -1 = empty) as one batch.
  data::HostBatch rows(const data::DataSource& source, const std::vector<std::int64_t>& samples) const;

 private:
  data::HostBatch batch_of(const std::vector<data::Row>& rows) const;

  const setup::Job& job_;
  std::int64_t coordinate_;
  data::Batches batches_;
  data::ModelBounds bounds_;
  data::Padding padding_;
};

/// The batch as tensors on the device.
nn::Batch to_device(const data::HostBatch& host, c10::Device device);
/// The same as a micro-step trains on it: dropout acts, with the masks of this step.
nn::Batch training_batch(const setup::Job& job, const data::HostBatch& host, std::int64_t step, c10::Device device);

}  // namespace train
CAPSTAN_END_NAMESPACE
