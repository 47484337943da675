// Views of the engine's tensors, by record: for norms, checkpoints and step hooks.
#include "shard/engine.h"

#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include "ops/norm.h"

#include <map>

#include "shard/boxes.h"
#include "shard/footprint.h"

namespace capstan::shard {
namespace {

StoredBox stored(const HeldBox& held, const at::Tensor& slice) {
  return {&held.record, held.box, slice.narrow(0, held.begin, held.box.numel()), held.writes_to_checkpoint, held.copy};
}

}  // namespace

// Calls visit for each block of a bucket's gradients that this rank owns for the norm, with the weight's place in the
// bucket.
void Engine::each_owned(std::size_t b, const std::function<void(std::size_t, const RecordShard&)>& visit) const {
  const auto& bucket = plan(b);
  for (std::size_t w = 0; bucket.trainable && w < bucket.weights.size(); ++w) {
    for (const auto& shard : bucket.weights[w].sharding.of(parameters_[b].position())) {
      const auto& record = bucket.weights[w].weight->records()[shard.record];
      if (shard.numel == 0 || !owns_for_norm(record, bucket, shared_.options)) continue;
      for (std::int64_t block = 0; block < shard.blocks; ++block) visit(w, shard.block(block));
    }
  }
}

// Gradients that stay on the device come first: they are measured at once.
void Engine::list_squares() {
  std::vector<std::int64_t> weights;
  squares_.first.resize(parameters_.size());
  for (const bool passes : {false, true}) {
    std::int64_t first_weight = 0;
    for (std::size_t b = 0; b < parameters_.size(); ++b) {
      if (plan(b).gradients.on_host == passes) {
        squares_.first[b] = static_cast<std::int64_t>(weights.size());
        each_owned(b, [&](std::size_t w, const RecordShard&) {
          weights.push_back(first_weight + static_cast<std::int64_t>(w));
        });
      }
      if (plan(b).trainable) first_weight += static_cast<std::int64_t>(plan(b).weights.size());
    }
  }
  const auto on_device = at::TensorOptions().device(shared_.device());
  squares_.sums = at::zeros({static_cast<std::int64_t>(weights.size())}, on_device.dtype(at::kDouble));
  // It is the same at every step, and made once, since a copy from the host waits for the device.
  squares_.weights = at::tensor(weights, at::TensorOptions().dtype(at::kLong)).to(shared_.device());
}

void Engine::measure_offloaded(std::size_t b) {
  if (!squares_.sums.defined()) list_squares();
  std::vector<at::Tensor> parts;
  each_owned(b, [&](std::size_t w, const RecordShard& shard) { parts.push_back(reducers_[b].owned(w, shard)); });
  if (parts.empty()) return;
  reducers_[b].measure(squares_.sums.narrow(0, squares_.first[b], static_cast<std::int64_t>(parts.size())), parts);
}

// Both sides of a sum have the same names in the same order.
void Engine::sum_over_stages() {
  if (!shared_.options.holders) return;
  std::map<std::string, Reducer*> by_name;
  for (std::size_t b = 0; b < reducers_.size(); ++b) by_name[plan(b).weights.front().weight->name()] = &reducers_[b];
  for (auto& [name, reducer] : by_name) reducer->sum_over_stages();
}

at::Tensor Engine::squared_grad_norms() {
  const at::NoGradGuard no_grad;
  sum_over_stages();
  finish();
  if (!squares_.sums.defined()) list_squares();
  std::vector<at::Tensor> parts;
  for (std::size_t b = 0; b < parameters_.size(); ++b) {
    if (plan(b).gradients.on_host) continue;
    each_owned(b, [&](std::size_t w, const RecordShard& shard) { parts.push_back(reducers_[b].owned(w, shard)); });
  }
  ops::squared_norms(squares_.sums.narrow(0, 0, static_cast<std::int64_t>(parts.size())), parts);
  const auto norms = at::zeros({static_cast<std::int64_t>(trained_.size())}, squares_.sums.options());
  return norms.index_add(0, squares_.weights, squares_.sums);
}

std::vector<Reached> Engine::reached() const {
  std::vector<Reached> list;
  for (const auto& one : trained_)
    list.push_back({&weight(one), plan(one.bucket).name, reducers_[one.bucket].has_had_gradient(one.weight)});
  return list;
}

std::vector<std::string> Engine::trainable_names() const {
  std::vector<std::string> names;
  for (const auto& one : trained_) names.push_back(weight(one).name());
  return names;
}

std::vector<StoredBox> Engine::stored_boxes() {
  host_.wait_all();
  std::vector<StoredBox> boxes;
  each_box(shared_.plan, shared_.options, Of::parameters, false, [&](const HeldBox& held) {
    const auto all = parameters_[held.bucket].masters().slice(held.weight, false);
    boxes.push_back(stored(held, all));
  });
  return boxes;
}

std::vector<ComputeCopy> Engine::compute_copies() {
  std::vector<ComputeCopy> copies;
  const auto& options = shared_.options;
  const auto add = [&](const nn::Weight& weight, at::Tensor value, int copy) {
    copies.push_back({&weight, {}, std::move(value), copy});
    for (const auto& record : weight.records())
      copies.back().boxes.push_back(record.compute.box(record.shape, options.mesh, options.rank));
  };
  // Checksums cover bits; a pair of bytes is read as one number.
  const auto numbers = [](const at::Tensor& bytes) { return bytes.view({-1}).view(at::kBFloat16); };
  for (std::size_t b = 0; b < parameters_.size(); ++b) {
    const auto& bucket = plan(b);
    auto& held = parameters_[b];
    const bool stays = !bucket.shards_param && !bucket.on_host;
    for (std::size_t w = 0; w < bucket.weights.size(); ++w) {
      const auto& weight = *bucket.weights[w].weight;
      if (bucket.parameters.form == Form::packed && bucket.ranks == 1)
        add(weight, numbers(held.masters().packed_slice(w)), 0);
      if (!stays) continue;
      if (bucket.weights[w].in_bytes) {
        add(weight, numbers(held.full().flat(w)), copy_of(weight.records().front(), options));
        continue;
      }
      const auto leaf = held.full().leaf(w).detach();
      if (bucket.parameters.form == Form::rows) add(weight, numbers(leaf), 0);
      if (bucket.buffer(Purpose::master)) add(weight, leaf, copy_of(weight.records().front(), options));
    }
  }
  return copies;
}

std::vector<StoredBox> Engine::gradient_boxes() {
  finish();
  std::vector<StoredBox> boxes;
  each_box(shared_.plan, shared_.options, Of::gradients, true,
           [&](const HeldBox& held) { boxes.push_back(stored(held, gradient(held.bucket, held.weight))); });
  return boxes;
}

// A weight's summed gradient, in the masters' dtype, wherever it is.
at::Tensor Engine::gradient(std::size_t b, std::size_t w) {
  const auto master = shared_.options.precision.master;
  if (!plan(b).gradients.on_host) return reducers_[b].slice(w).to(master);
  shared_.offload.arrived(plan(b)).synchronize();
  return plan(b).weights[w].of_shard(shared_.offload.gradient(plan(b))).to(master);
}

std::vector<strategy::StepPart> Engine::step_parts() {
  const at::NoGradGuard no_grad;
  std::vector<strategy::StepPart> list;
  each_box(shared_.plan, shared_.options, Of::parameters, true, [&](const HeldBox& held) {
    const auto master = parameters_[held.bucket].masters().slice(held.weight, false);
    strategy::StepPart out{&held.record, held.box, master.narrow(0, held.begin, held.box.numel()), {}};
    const auto kept = state_of(held);
    for (std::size_t i = 0; i < kept.states.size(); ++i) {
      const auto& spec = kept.slice->states[i].spec;
      if (spec.block == 1 && kept.states[i].scalar_type() == master.scalar_type())
        out.moments.push_back(kept.states[i]);
    }
    list.push_back(std::move(out));
  });
  return list;
}

std::vector<StateOfRecord> Engine::state_boxes() {
  const at::NoGradGuard no_grad;
  host_.wait_all();
  std::vector<StateOfRecord> list;
  each_box(shared_.plan, shared_.options, Of::parameters, true, [&](const HeldBox& held) {
    if (auto kept = state_of(held); !kept.states.empty()) list.push_back(std::move(kept));
  });
  return list;
}

std::vector<strategy::KeptJointState> Engine::joint_states() {
  host_.wait_all();
  if (!joint_) return {};
  auto states = joint_->states();
  for (auto& state : states) state.copy = copy_of(*state.part.record, shared_.options);
  return states;
}

// The states of a record's box, zero before the first update.
StateOfRecord Engine::state_of(const HeldBox& held) {
  shared_.allocate_states();
  StateOfRecord out;
  for (const auto& slice : slices_of(shared_.slices, held.bucket, held.weight)) {
    if (slice.record != nullptr && slice.record != &held.record) continue;
    out = {&slice, {&held.record, held.box, {}, held.writes_to_checkpoint, held.copy}, held.layout, slice.state};
    if (slice.record) break;
    for (auto& state : out.states) state = state.narrow(0, held.begin, held.box.numel());
    break;
  }
  return out;
}

std::vector<layout::Footprint> Engine::held() const {
  HeldMemory memory(c10::DeviceTypeName(shared_.device().type(), true));
  shared_.offload.add_held(memory);
  for (const auto& reducer : reducers_) reducer.add_held(memory);
  for (const auto& bucket : parameters_) bucket.add_held(memory);
  for (const auto& slice : shared_.slices) {
    for (const auto& state : slice.state) memory.add(Purpose::optimizer_state, state, plan(slice.bucket).on_host);
  }
  const auto add_state = [&](const at::Tensor& state, bool on_host) {
    memory.add(Purpose::optimizer_state, state, on_host);
  };
  if (joint_) joint_->each_held(add_state);
  memory.add(Purpose::gather_staging, shared_.gather_staging);
  memory.add(Purpose::reduce_staging, shared_.reduce_staging);
  memory.add(Purpose::sum_staging, shared_.sum_staging);
  memory.add(Purpose::partial_staging, shared_.partial_staging);
  return memory.list();
}

}  // namespace capstan::shard
