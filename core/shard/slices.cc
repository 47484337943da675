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

// Calls visit for each block of a bucket's gradients that this rank counts, with the weight's place in the bucket.
void Engine::Parts::each_counted(std::size_t b, const std::function<void(std::size_t, const Piece&)>& visit) const {
  const auto& bucket = buckets[b]->plan();
  for (std::size_t w = 0; bucket.trainable && w < bucket.weights.size(); ++w) {
    for (const auto& piece : bucket.pieces(bucket.weights[w], buckets[b]->position())) {
      const auto& record = bucket.weights[w].weight->records()[piece.record];
      if (piece.numel == 0 || !counts(record, bucket, shared.options)) continue;
      for (std::int64_t block = 0; block < piece.blocks; ++block) visit(w, piece.block(block));
    }
  }
}

// What stays on the device first: it is measured at once.
void Engine::Parts::list_squares() {
  std::vector<std::int64_t> weights;
  first_square.resize(buckets.size());
  for (const bool passes : {false, true}) {
    std::int64_t first_weight = 0;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      if (reducers[b]->passes() == passes) {
        first_square[b] = static_cast<std::int64_t>(weights.size());
        each_counted(
            b, [&](std::size_t w, const Piece&) { weights.push_back(first_weight + static_cast<std::int64_t>(w)); });
      }
      const auto& plan = buckets[b]->plan();
      if (plan.trainable) first_weight += static_cast<std::int64_t>(plan.weights.size());
    }
  }
  const auto on_device = at::TensorOptions().device(shared.device());
  squares = at::zeros({static_cast<std::int64_t>(weights.size())}, on_device.dtype(at::kDouble));
  // The same at every step; made once, since a copy from the host waits for the device.
  weight_of_square = at::tensor(weights, at::TensorOptions().dtype(at::kLong)).to(shared.device());
}

void Engine::Parts::measure_passing(std::size_t b) {
  if (!squares.defined()) list_squares();
  std::vector<at::Tensor> parts;
  each_counted(b, [&](std::size_t w, const Piece& piece) { parts.push_back(reducers[b]->counted(w, piece)); });
  if (parts.empty()) return;
  reducers[b]->measure(squares.narrow(0, first_square[b], static_cast<std::int64_t>(parts.size())), parts);
}

at::Tensor Engine::squared_grad_norms() {
  const at::NoGradGuard no_grad;
  auto& own = *parts_;
  own.finish();
  if (!own.squares.defined()) own.list_squares();
  std::vector<at::Tensor> parts;
  for (std::size_t b = 0; b < own.buckets.size(); ++b) {
    if (own.reducers[b]->passes()) continue;
    own.each_counted(b,
                     [&](std::size_t w, const Piece& piece) { parts.push_back(own.reducers[b]->counted(w, piece)); });
  }
  ops::squared_norms(own.squares.narrow(0, 0, static_cast<std::int64_t>(parts.size())), parts);
  const auto norms = at::zeros({static_cast<std::int64_t>(own.trained.size())}, own.squares.options());
  return norms.index_add(0, own.weight_of_square, own.squares);
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
  each_part(parts_->shared.plan, parts_->shared.options, Of::gradients, true,
            [&](const Part& part) { boxes.push_back(stored(part, parts_->gradient(part.bucket, part.weight))); });
  return boxes;
}

// A weight's summed gradient, in the masters' dtype, wherever it is.
at::Tensor Engine::Parts::gradient(std::size_t b, std::size_t w) {
  if (!reducers[b]->passes()) return reducers[b]->slice(w);
  const auto& bucket = buckets[b]->plan();
  shared.transit.arrived(bucket).synchronize();
  const auto& planned = bucket.weights[w];
  const auto slice = shared.transit.gradient(bucket).narrow(0, planned.slab_offset, planned.cut.chunk_room);
  return slice.to(shared.options.precision.master);
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
