#include "shard/engine.h"

#include <capstan/base/error.h>

#include <utility>

#include "shard/engine_parts.h"
#include "shard/footprint.h"
#include "shard/tables.h"

namespace capstan::shard {

Engine::Parts::Parts(EngineOptions engine_options, const std::vector<nn::Unit*>& units, const GroupOf& group_of)
    : shared(std::move(engine_options), units), protocol(shared.plan, shared.options, *this), host(shared) {
  for (std::size_t b = 0; b < shared.plan.buckets.size(); ++b) {
    parameters.push_back(std::make_unique<BucketParameters>(plan(b), shared, group_of));
    reducers.push_back(std::make_unique<Reducer>(*parameters.back(), shared, group_of));
    for (std::size_t w = 0; plan(b).trainable && w < plan(b).weights.size(); ++w) trained.push_back({b, w});
  }
  for (const auto& bucket : shared.plan.buckets) {
    if (!shared.options.policy.sync_module_states) break;
    holders.push_back(group_of(bucket.weights.front().weight->records().front().data_axes, 0));
  }
  shared.allocate_staging();
  for (std::size_t b = 0; b < parameters.size(); ++b) {
    parameters[b]->allocate();
    reducers[b]->allocate();
    if (plan(b).on_host && plan(b).trainable) {
      host.add(*parameters[b]);
      parameters[b]->set_await_update([this, b] { host.wait(*parameters[b]); });
    }
  }
  scales = std::make_unique<GatherScales>(parameters, shared, group_of);
}

void Engine::Parts::reduce(std::size_t bucket, const Reduction& how) {
  in_flight.begin(bucket, plan(bucket).full_elements, [this](std::size_t done) { reducers[done]->free_inputs(); });
  reducers[bucket]->reduce(how);
  if (!how.offloads) return;
  if (how.last) measure_offloaded(bucket);
  reducers[bucket]->offload();
}

void Engine::Parts::add_rows(std::size_t bucket, const Reduction& how) {
  in_flight.begin(bucket, exchanged_rows(plan(bucket)), [this](std::size_t done) { reducers[done]->free_inputs(); });
  reducers[bucket]->add_rows(how);
}

void Engine::Parts::finish() {
  for (auto& reducer : reducers) reducer->finish();
  in_flight.clear();
}

Engine::Engine(EngineOptions options, const std::vector<nn::Unit*>& units, const GroupOf& group_of)
    : parts_(std::make_unique<Parts>(std::move(options), units, group_of)) {}

Engine::~Engine() = default;

std::vector<std::string> Engine::fill(layout::Source& source,
                                      const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const at::NoGradGuard no_grad;
  const auto all = parameters();
  std::int64_t done = 0;
  std::vector<std::string> differing;
  for (std::size_t b = 0; b < parts_->parameters.size(); ++b) {
    auto& bucket = *parts_->parameters[b];
    if (!parts_->holders.empty()) {
      for (auto& name : bucket.fill_from_first(source, *parts_->holders[b])) differing.push_back(std::move(name));
    } else {
      bucket.fill(source);
    }
    parts_->protocol.invalidate(b);
    for (const auto& planned : bucket.plan().weights) done += planned.weight->numel();
    if (progress) progress(done, all);
  }
  parts_->scales->update();
  parts_->shared.updated.record(parts_->shared.device());
  return differing;
}

void Engine::resume(layout::Source& source, const std::function<void(std::int64_t, std::int64_t)>& progress) {
  auto holders = std::exchange(parts_->holders, {});
  fill(source, progress);
  parts_->holders = std::move(holders);
}

std::unique_ptr<strategy::UnitHooks> Engine::hooks(std::size_t index) { return parts_->protocol.hooks(index); }

void Engine::begin_micro_step(std::int64_t index) {
  parts_->protocol.begin_micro_step(index);
  parts_->shared.offload.begin_micro_step(index);
}

bool Engine::is_local(std::int64_t micro_step) const { return parts_->protocol.is_local(micro_step); }

void Engine::join() {
  parts_->finish();
  for (auto& reducer : parts_->reducers) reducer->forget();
}

void Engine::drop_gradients() {
  for (auto& reducer : parts_->reducers) reducer->forget();
  parts_->in_flight.clear();
  for (const auto& bucket : parts_->parameters) {
    for (std::size_t i = 0; i < bucket->plan().weights.size(); ++i) bucket->leaf(i).mutable_grad().reset();
    if (bucket->plan().is_table()) bucket->table_leaf().mutable_grad().reset();
  }
}

std::vector<strategy::Slice> Engine::Parts::device_slices(const strategy::OptimizerRule& rule, bool copies) {
  std::vector<strategy::Slice> slices;
  for (std::size_t t = 0; t < trained.size(); ++t) {
    const auto [b, w] = trained[t];
    if (plan(b).on_host) continue;
    auto& bucket = *parameters[b];
    const bool unpadded = plan(b).gradients.autograd;
    const auto master = bucket.master_slice(w, unpadded);
    auto gradient = reducers[b]->slice(w);
    if (gradient.defined() && !rule.is_fused()) gradient = gradient.to(master.scalar_type());
    slices.push_back({&bucket.weight(w), master, gradient, device_state(t, rule.states()),
                      copies ? bucket.copy_slice(w, unpadded) : at::Tensor()});
  }
  return slices;
}

// The rule's state of a trained weight on the device; at least so many tensors.
const std::vector<at::Tensor>& Engine::Parts::device_state(std::size_t t, std::size_t states) {
  state.resize(trained.size());
  const auto [b, w] = trained[t];
  while (state[t].size() < states)
    state[t].push_back(allocate(*plan(b).buffer(Purpose::optimizer_state, w), shared.device()));
  return state[t];
}

void Engine::update(strategy::OptimizerRule& rule, const strategy::Update& update, const std::function<void()>& after) {
  const at::NoGradGuard no_grad;
  parts_->finish();
  const bool copies = rule.is_fused() && !after;  // `after` may still change the masters
  auto slices = parts_->device_slices(rule, copies);
  if (!slices.empty()) rule.apply(slices, update);
  parts_->host.start(rule, update, /*publish=*/!after);
  if (after) {
    parts_->host.wait_all();
    after();
    parts_->host.publish_all();
  }
  parts_->publish(copies);
}

void Engine::write_masters(const std::function<void()>& write) {
  const at::NoGradGuard no_grad;
  parts_->finish();
  parts_->host.wait_all();
  write();
  parts_->host.publish_all();
  parts_->publish();
}

void Engine::Parts::publish(bool copied) {
  for (std::size_t b = 0; b < parameters.size(); ++b) {
    if (!plan(b).trainable) continue;
    parameters[b]->publish(copied);
    protocol.invalidate(b);
  }
  scales->update();
  shared.updated.record(shared.device());
}

void Engine::finish_update() { parts_->host.wait_all(); }

HostUpdateTimes Engine::host_update_times() {
  finish_update();
  return parts_->host.times();
}

std::vector<layout::Footprint> Engine::footprint(std::size_t states) const {
  return shard::footprint(parts_->shared.plan, parts_->shared.options, states);
}

}  // namespace capstan::shard
