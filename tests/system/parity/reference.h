#pragma once
// What models.py wrote next to a model, and our own logits for it.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/checkpoint/safetensors.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "step/session.h"

namespace parity {

using Tensors = std::map<std::string, at::Tensor>;

inline Tensors load(const std::filesystem::path& path) {
  const capstan::checkpoint::SafetensorsFile file(path);
  Tensors out;
  for (const auto& [name, info] : file.tensors()) {
    out[name] = at::empty(info.shape, at::TensorOptions(capstan::checkpoint::torch_dtype(info.dtype)));
    file.read(name, capstan::layout::Box::whole(info.shape), out[name]);
  }
  return out;
}

inline capstan::nn::Batch batch_of(const at::Tensor& ids) {
  capstan::nn::Batch batch;
  batch.tokens = ids;
  batch.positions = at::arange(ids.size(1), ids.options()).expand_as(ids);
  batch.sample_ids = at::arange(ids.size(0), ids.options());
  batch.training = true;  // the models have no dropout
  return batch;
}

/// Logits of all positions, [batch, seq, vocab]: of a copy of each row for each position, which are computed at once. A
/// GPU's kernels see the rows as they are.
inline at::Tensor logits_of(capstan::step::Session& session, const at::Tensor& ids) {
  const at::NoGradGuard no_grad;
  const auto rows = ids.size(0), length = ids.size(1), at_once = ids.is_cpu() ? length : 1;
  auto batch = batch_of(ids.repeat({at_once, 1}));
  std::vector<at::Tensor> positions;
  for (std::int64_t t = 0; t < length; t += at_once) {
    batch.last = at::arange(t, t + at_once, ids.options()).repeat_interleave(rows);
    positions.push_back(session.runner->forward(batch).states.reshape({at_once, rows, -1}));
  }
  return at::cat(positions).transpose(0, 1);
}

}  // namespace parity
