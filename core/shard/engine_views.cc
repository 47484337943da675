// Views of the engine's tensors, by record: for norms, checkpoints and step hooks.
#include <capstan/base/error.h>
#include <capstan/ops/norm.h>

#include "shard/boxes.h"
#include "shard/engine_parts.h"
#include "shard/footprint.h"

namespace capstan::shard {
namespace {

StoredBox stored(const HeldBox& held, const at::Tensor& slice) {
  return {&held.record, held.box, slice.narrow(0, held.begin, held.box.numel()), held.writes_to_checkpoint, held.copy};
}

}  // namespace

// Calls visit for each block of a bucket's gradients that this rank owns for the norm, with the weight's place in the
// bucket.
void Engine::Parts::each_owned(std::size_t b, const std::function<void(std::size_t, const RecordShard&)>& visit) const {
  const auto& bucket = plan(b);
  for (std::size_t w = 0; bucket.trainable && w < bucket.weights.size(); ++w) {
    for (const auto& shard : bucket.shards(bucket.weights[w], parameters[b]->position())) {
      const auto& record = bucket.weights[w].weight->records()[shard.record];
      if (shard.numel == 0 || !owns_for_norm(record, bucket, shared.options)) continue;
      for (std::int64_t block = 0; block < shard.blocks; ++block) visit(w, shard.block(block));
    }
  }
}

// Gradients that stay on the device first: they are measured at once.
void Engine::Parts::list_squares() {
  std::vector<std::int64_t> weights;
  first_square.resize(parameters.size());
  for (const bool passes : {false, true}) {
    std::int64_t first_weight = 0;
    for (std::size_t b = 0; b < parameters.size(); ++b) {
      if (plan(b).gradients.on_host == passes) {
        first_square[b] = static_cast<std::int64_t>(weights.size());
        each_owned(b, [&](std::size_t w, const RecordShard&) {
          weights.push_back(first_weight + static_cast<std::int64_t>(w));
        });
      }
      if (plan(b).trainable) first_weight += static_cast<std::int64_t>(plan(b).weights.size());
    }
  }
  const auto on_device = at::TensorOptions().device(shared.device());
  squares = at::zeros({static_cast<std::int64_t>(weights.size())}, on_device.dtype(at::kDouble));
  // The same at every step; made once, since a copy from the host waits for the device.
  weight_of_square = at::tensor(weights, at::TensorOptions().dtype(at::kLong)).to(shared.device());
}

void Engine::Parts::measure_offloaded(std::size_t b) {
  if (!squares.defined()) list_squares();
  std::vector<at::Tensor> parts;
  each_owned(b, [&](std::size_t w, const RecordShard& shard) { parts.push_back(reducers[b]->owned(w, shard)); });
  if (parts.empty()) return;
  reducers[b]->measure(squares.narrow(0, first_square[b], static_cast<std::int64_t>(parts.size())), parts);
}

at::Tensor Engine::squared_grad_norms() {
  const at::NoGradGuard no_grad;
  auto& own = *parts_;
  own.finish();
  if (!own.squares.defined()) own.list_squares();
  std::vector<at::Tensor> parts;
  for (std::size_t b = 0; b < own.parameters.size(); ++b) {
    if (own.plan(b).gradients.on_host) continue;
    own.each_owned(b,
                   [&](std::size_t w, const RecordShard& shard) { parts.push_back(own.reducers[b]->owned(w, shard)); });
  }
  ops::squared_norms(own.squares.narrow(0, 0, static_cast<std::int64_t>(parts.size())), parts);
  const auto norms = at::zeros({static_cast<std::int64_t>(own.trained.size())}, own.squares.options());
  return norms.index_add(0, own.weight_of_square, own.squares);
}

std::vector<Reached> Engine::reached() const {
  std::vector<Reached> list;
  for (const auto& [b, w] : parts_->trained)
    list.push_back({&parts_->parameters[b]->weight(w), parts_->plan(b).name, parts_->reducers[b]->has_had_gradient(w)});
  return list;
}

std::vector<std::string> Engine::trainable_names() const {
  std::vector<std::string> names;
  for (const auto& [b, w] : parts_->trained) names.push_back(parts_->parameters[b]->weight(w).name());
  return names;
}

std::vector<StoredBox> Engine::stored_boxes() {
  parts_->host.wait_all();
  std::vector<StoredBox> boxes;
  each_box(parts_->shared.plan, parts_->shared.options, Of::parameters, false, [&](const HeldBox& held) {
    const auto all = parts_->parameters[held.bucket]->master_slice(held.weight, false);
    boxes.push_back(stored(held, all));
  });
  return boxes;
}

std::vector<ComputeCopy> Engine::compute_copies() {
  std::vector<ComputeCopy> copies;
  const auto& options = parts_->shared.options;
  const auto add = [&](const nn::Weight& weight, at::Tensor value, int copy) {
    copies.push_back({&weight, {}, std::move(value), copy});
    for (const auto& record : weight.records())
      copies.back().boxes.push_back(record.compute.box(record.shape, options.mesh, options.rank));
  };
  // Checksums are of bits; a pair of bytes is read as one number.
  const auto numbers = [](const at::Tensor& bytes) { return bytes.view({-1}).view(at::kBFloat16); };
  for (std::size_t b = 0; b < parts_->parameters.size(); ++b) {
    const auto& bucket = parts_->plan(b);
    const auto& held = *parts_->parameters[b];
    const bool stays = !bucket.shards_param && !bucket.on_host;
    for (std::size_t w = 0; w < bucket.weights.size(); ++w) {
      const auto& weight = *bucket.weights[w].weight;
      if (bucket.packs() && bucket.ranks == 1) add(weight, numbers(held.packed_slice(w)), 0);
      if (!stays) continue;
      if (bucket.weights[w].in_bytes) {
        add(weight, numbers(held.full_weight(w)), copy_of(weight.records().front(), options));
        continue;
      }
      const auto leaf = held.leaf(w).detach();
      if (bucket.in_bytes()) add(weight, numbers(leaf), 0);
      if (bucket.buffer(Purpose::master)) add(weight, leaf, copy_of(weight.records().front(), options));
    }
  }
  return copies;
}

std::vector<StoredBox> Engine::gradient_boxes() {
  parts_->finish();
  std::vector<StoredBox> boxes;
  each_box(parts_->shared.plan, parts_->shared.options, Of::gradients, true,
           [&](const HeldBox& held) { boxes.push_back(stored(held, parts_->gradient(held.bucket, held.weight))); });
  return boxes;
}

// A weight's summed gradient, in the masters' dtype, wherever it is.
at::Tensor Engine::Parts::gradient(std::size_t b, std::size_t w) {
  const auto master = shared.options.precision.master;
  if (!plan(b).gradients.on_host) return reducers[b]->slice(w).to(master);
  const auto& bucket = plan(b);
  shared.offload.arrived(bucket).synchronize();
  const auto& planned = bucket.weights[w];
  const auto slice = shared.offload.gradient(bucket).narrow(0, planned.shard_offset, planned.sharding.shard_elements);
  return slice.to(master);
}

std::vector<strategy::StepPart> Engine::step_parts(std::size_t states) {
  const at::NoGradGuard no_grad;
  std::vector<strategy::StepPart> list;
  each_box(parts_->shared.plan, parts_->shared.options, Of::parameters, true, [&](const HeldBox& held) {
    const auto& bucket = *parts_->parameters[held.bucket];
    const auto view = [&](const at::Tensor& slice) { return slice.narrow(0, held.begin, held.box.numel()); };
    strategy::StepPart out{&held.record, held.box, view(bucket.master_slice(held.weight, false)), {}};
    for (const auto& moment : parts_->moments(held.bucket, held.weight, states)) out.moments.push_back(view(moment));
    list.push_back(std::move(out));
  });
  return list;
}

std::vector<std::vector<StoredBox>> Engine::state_boxes(std::size_t states) {
  const at::NoGradGuard no_grad;
  parts_->host.wait_all();
  std::vector<std::vector<StoredBox>> boxes(states);
  each_box(parts_->shared.plan, parts_->shared.options, Of::parameters, true, [&](const HeldBox& held) {
    const auto moments = parts_->moments(held.bucket, held.weight, states);
    for (std::size_t i = 0; i < states; ++i) boxes[i].push_back(stored(held, moments[i]));
  });
  return boxes;
}

std::vector<at::Tensor> Engine::Parts::moments(std::size_t b, std::size_t w, std::size_t states) {
  if (plan(b).on_host) return host.slices(host.item_of(*parameters[b]), states)[w].state;
  for (std::size_t t = 0; t < trained.size(); ++t) {
    if (trained[t].bucket == b && trained[t].weight == w) return device_state(t, states);
  }
  return {};
}

std::vector<layout::Footprint> Engine::held() const {
  HeldMemory memory;
  const VisitHeld visit = [&](Purpose purpose, const at::Tensor& tensor, bool on_host) {
    memory.add(purpose, tensor, on_host);
  };
  const auto& shared = parts_->shared;
  shared.offload.visit_held(visit);
  for (const auto& reducer : parts_->reducers) reducer->visit_held(visit);
  for (const auto& bucket : parts_->parameters) {
    memory.set_gathered(bucket->plan().shards_param);
    bucket->visit_held(visit);
  }
  for (const auto& states : parts_->state) {
    for (const auto& state : states) visit(Purpose::optimizer_state, state, false);
  }
  parts_->host.visit_held(visit);
  visit(Purpose::gather_staging, shared.gather_staging, false);
  visit(Purpose::reduce_staging, shared.reduce_staging, false);
  visit(Purpose::sum_staging, shared.sum_staging, false);
  visit(Purpose::partial_staging, shared.partial_staging, false);
  return memory.list(c10::DeviceTypeName(shared.device().type(), true));
}

std::int64_t Engine::parameters() const {
  std::int64_t sum = 0;
  for (const auto& bucket : parts_->parameters) {
    for (const auto& planned : bucket->plan().weights) sum += planned.weight->numel();
  }
  return sum;
}

std::int64_t Engine::trainable_parameters() const {
  std::int64_t sum = 0;
  for (const auto& [b, w] : parts_->trained) sum += parts_->parameters[b]->weight(w).numel();
  return sum;
}

}  // namespace capstan::shard
