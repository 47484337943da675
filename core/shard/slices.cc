// Views of what the engine holds, by record: for norms, checkpoints and what follows a step.
#include <capstan/base/error.h>
#include <capstan/ops/norm.h>

#include "shard/engine_parts.h"
#include "shard/parts.h"

namespace capstan::shard {
namespace {

// Of the ranks that hold the same element of the summed gradient, exactly one counts it. Ranks that differ on a local
// axis hold different gradients: each counts its own.
bool counts(const layout::Param& record, const BucketPlan& bucket, const EngineOptions& options) {
  auto axes = bucket.axes;
  axes.insert(axes.end(), record.local_axes.begin(), record.local_axes.end());
  return record.compute.with({0, axes}).counts(options.mesh, options.rank);
}

StoredBox stored(const Part& part, const at::Tensor& slice) {
  return {&part.record, part.box, slice.narrow(0, part.begin, part.box.numel()), part.counts, part.copy};
}

}  // namespace

at::Tensor Engine::squared_grad_norms() {
  const at::NoGradGuard no_grad;
  parts_->finish();
  std::vector<at::Tensor> tensors;
  std::vector<std::int64_t> weight_of_tensor;
  for (std::size_t t = 0; t < parts_->trained.size(); ++t) {
    const auto [b, w] = parts_->trained[t];
    const auto& bucket = parts_->buckets[b]->plan();
    for (const auto& piece : bucket.pieces(bucket.weights[w], parts_->buckets[b]->position())) {
      const auto& record = bucket.weights[w].weight->records()[piece.record];
      if (piece.numel == 0 || !counts(record, bucket, parts_->shared.options)) continue;
      for (std::int64_t block = 0; block < piece.blocks; ++block) {
        tensors.push_back(parts_->reducers[b]->counted(w, piece.block(block)));
        weight_of_tensor.push_back(static_cast<std::int64_t>(t));
      }
    }
  }
  const auto on_device = at::TensorOptions().dtype(at::kDouble).device(parts_->shared.device());
  auto norms = at::zeros({static_cast<std::int64_t>(parts_->trained.size())}, on_device);
  if (tensors.empty()) return norms;
  auto each = at::zeros({static_cast<std::int64_t>(tensors.size())}, on_device);
  ops::squared_norms(each, tensors);
  // The same at every step; made once, since a copy from the host waits for the device.
  auto& weights = parts_->part_weights;
  if (!weights.defined()) {
    weights = at::tensor(weight_of_tensor, at::TensorOptions().dtype(at::kLong)).to(parts_->shared.device());
  }
  return norms.index_add_(0, weights, each);
}

std::vector<std::string> Engine::trainable_names() const {
  std::vector<std::string> names;
  for (const auto& [b, w] : parts_->trained) names.push_back(parts_->buckets[b]->weight(w).name());
  return names;
}

std::vector<StoredBox> Engine::stored_boxes() {
  parts_->host.wait_all();
  std::vector<StoredBox> boxes;
  each_part(parts_->shared.plan, parts_->shared.options, Of::parameters, false, [&](const Part& part) {
    const auto all = parts_->buckets[part.bucket]->master_slice(part.weight, false);
    boxes.push_back(stored(part, all));
  });
  return boxes;
}

std::vector<StoredBox> Engine::gradient_boxes() {
  parts_->finish();
  std::vector<StoredBox> boxes;
  each_part(parts_->shared.plan, parts_->shared.options, Of::gradients, true, [&](const Part& part) {
    const auto all = parts_->reducers[part.bucket]->slice(part.weight);
    boxes.push_back(stored(part, all));
  });
  return boxes;
}

std::vector<strategy::StepPart> Engine::step_parts() {
  std::vector<strategy::StepPart> list;
  each_part(parts_->shared.plan, parts_->shared.options, Of::parameters, true, [&](const Part& part) {
    const auto& bucket = *parts_->buckets[part.bucket];
    const auto view = [&](const at::Tensor& slice) { return slice.narrow(0, part.begin, part.box.numel()); };
    strategy::StepPart out{&part.record, part.box, view(bucket.master_slice(part.weight, false)), {}};
    for (const auto& moment : parts_->moments(part.bucket, part.weight)) out.moments.push_back(view(moment));
    list.push_back(std::move(out));
  });
  return list;
}

std::vector<std::vector<StoredBox>> Engine::state_boxes(std::size_t states) {
  const at::NoGradGuard no_grad;
  parts_->host.wait_all();
  std::vector<std::vector<StoredBox>> boxes(states);
  each_part(parts_->shared.plan, parts_->shared.options, Of::parameters, true, [&](const Part& part) {
    const auto moments = parts_->moments(part.bucket, part.weight, states);
    for (std::size_t i = 0; i < states; ++i) boxes[i].push_back(stored(part, moments[i]));
  });
  return boxes;
}

std::vector<at::Tensor> Engine::Parts::moments(std::size_t b, std::size_t w, std::size_t states) {
  if (buckets[b]->on_host()) return host.slices(host.item_of(*buckets[b]), states)[w].state;
  for (std::size_t t = 0; t < trained.size(); ++t) {
    if (trained[t].bucket == b && trained[t].weight == w) return device_state(t, states);
  }
  return {};
}

std::int64_t Engine::parameters() const {
  std::int64_t sum = 0;
  for (const auto& bucket : parts_->buckets) {
    for (const auto& planned : bucket->plan().weights) sum += planned.weight->numel();
  }
  return sum;
}

std::int64_t Engine::trainable_parameters() const {
  std::int64_t sum = 0;
  for (const auto& [b, w] : parts_->trained) sum += parts_->buckets[b]->weight(w).numel();
  return sum;
}

}  // namespace capstan::shard
