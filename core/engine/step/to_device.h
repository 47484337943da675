#pragma once
#include <capstan/base/export.h>
#include <capstan/data/host_batch.h>
#include <capstan/nn/batch.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "step/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// A batch as one list of 8-byte words, which one copy brings to a device: core's fields (data::core_fields), those
/// that the data declares, where two float32 values share a word, and the step. In host memory, pinned if asked for.
at::Tensor words_of(const data::HostBatch& host, std::int64_t step, bool pinned);
/// The batch whose tensors are views of `words`, or computed from them: the list of `host`, or of a batch that has the
/// same rows, columns, number of loss rows, and form of samples. Its device_step is in the list too.
nn::Batch batch_of(const data::HostBatch& host, const at::Tensor& words);

/// The batch as tensors on the device, or this rank's columns of it.
nn::Batch to_device(const data::HostBatch& host, c10::Device device, const nn::SequenceCut& cut = {});
/// The same of the batch and then of its others, on the session's device.
std::vector<nn::Batch> all_to_device(const Session& session, const data::HostBatch& host);
/// The batch as a micro-step of the session trains on it: dropout acts, with the masks of this step.
nn::Batch training_batch(const Session& session, const data::HostBatch& host, std::int64_t step);

}  // namespace step
CAPSTAN_END_NAMESPACE
