#include "shard/engine.h"

#include <capstan/base/error.h>

#include <utility>

#include "shard/engine_parts.h"

namespace capstan::shard {

Engine::Parts::Parts(EngineOptions engine_options, const std::vector<nn::Unit*>& units, const GroupOf& group_of)
    : shared(std::move(engine_options), units), schedule(shared.plan, shared.options.policy), host(shared) {
  const auto& plan = shared.plan;
  ended_by_run.resize(plan.runs.size());
  stays.resize(plan.runs.size(), false);
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    const auto& planned = plan.buckets[b];
    buckets.push_back(std::make_unique<Bucket>(planned, shared, group_of));
    reducers.push_back(std::make_unique<Reducer>(*buckets.back(), shared, group_of));
    if (planned.is_tied()) ended_by_run[planned.runs.back()].push_back(b);
    for (std::size_t w = 0; planned.trainable && w < planned.weights.size(); ++w) trained.push_back({b, w});
  }
  for (const auto& bucket : plan.buckets) {
    if (!shared.options.policy.sync_module_states) break;
    holders.push_back(group_of(bucket.weights.front().weight->records().front().data_axes, 0));
  }
  const auto sizes = scratch_sizes(plan, shared.options);
  const auto on_device = at::TensorOptions().device(shared.device());
  shared.gather_scratch = at::empty({sizes.gather}, on_device.dtype(shared.options.precision.compute));
  shared.reduce_scratch = at::empty({sizes.reduce}, on_device.dtype(shared.options.precision.reduce));
  shared.shard_scratch = at::empty({sizes.shard}, on_device.dtype(shared.options.precision.reduce));
  shared.partial_scratch = at::empty({sizes.partial}, on_device.dtype(shared.options.precision.master));
  shared.transit.allocate();
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    buckets[b]->allocate();
    reducers[b]->allocate();
    if (buckets[b]->on_host() && plan.buckets[b].trainable) {
      host.add(*buckets[b]);
      buckets[b]->set_await_update([this, b] { host.wait(*buckets[b]); });
    }
  }
}

void Engine::Parts::acquire(std::size_t run, bool with_grad) {
  for (const auto b : shared.plan.runs[run].buckets) buckets[b]->acquire(schedule.returns(run, with_grad));
}

void Engine::Parts::prefetch(std::optional<std::size_t> run, bool with_grad) {
  if (!run) return;
  for (const auto b : shared.plan.runs[*run].buckets) buckets[b]->prefetch(schedule.returns(*run, with_grad));
}

void Engine::Parts::release(std::size_t run) {
  for (const auto b : shared.plan.runs[run].buckets) buckets[b]->release();
}

void Engine::Parts::collect(std::size_t b) {
  // What the one before holds for its lane is let go when this one is done: one reduction in flight.
  if (held) held->let_go();
  held = reducers[b].get();
  Reducer::Collect how;
  how.micro_step = micro_step;
  how.first = micro_step == 0;
  how.last = micro_step + 1 == shared.options.accumulation;
  held->collect(how);
  if (!held->passes()) return;
  if (how.last) measure_passing(b);
  const bool summed = !shared.options.waits() || how.last;
  if (summed) shared.transit.send(shared.plan.buckets[b], held->piece(), held->done());
}

void Engine::Parts::finish() {
  for (auto& reducer : reducers) reducer->finish();
  held = nullptr;
}

// Gathers before a run of units computes and releases behind it. Hooks of units inside a run do nothing.
class Engine::Hooks : public strategy::UnitHooks {
 public:
  Hooks(Parts& parts, std::size_t unit)
      : parts_(parts),
        run_(parts.shared.plan.run_of_unit[unit]),
        first_(parts.shared.plan.runs[run_].first == unit),
        last_(parts.shared.plan.runs[run_].last == unit) {}

  void before_forward() override {
    if (!first_) return;
    const bool with_grad = c10::GradMode::is_enabled();
    parts_.acquire(run_, with_grad);
    parts_.prefetch(parts_.schedule.beside_forward(run_), with_grad);
  }
  void after_forward() override {
    if (!last_) return;
    parts_.stays[run_] = parts_.schedule.stays(run_, c10::GradMode::is_enabled());
    if (!parts_.stays[run_]) parts_.release(run_);
  }
  void before_backward() override {
    if (!last_) return;
    if (!parts_.stays[run_]) parts_.acquire(run_, false);
    parts_.stays[run_] = false;
    parts_.prefetch(parts_.schedule.before_backward(run_), false);
  }
  void after_backward() override {
    if (!first_) return;
    parts_.prefetch(parts_.schedule.behind_backward(run_), false);
    for (const auto b : parts_.shared.plan.runs[run_].buckets) {
      if (!parts_.shared.plan.buckets[b].is_tied()) parts_.collect(b);
    }
    parts_.release(run_);
  }
  void end_backward() override {
    if (!last_) return;
    for (const auto b : parts_.ended_by_run[run_]) parts_.collect(b);
  }

 private:
  Parts& parts_;
  std::size_t run_;
  bool first_;
  bool last_;
};

Engine::Engine(EngineOptions options, const std::vector<nn::Unit*>& units, const GroupOf& group_of)
    : parts_(std::make_unique<Parts>(std::move(options), units, group_of)) {}

Engine::~Engine() = default;

std::vector<std::string> Engine::fill(layout::Source& source,
                                      const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const at::NoGradGuard no_grad;
  const auto all = parameters();
  std::int64_t done = 0;
  std::vector<std::string> differing;
  for (std::size_t b = 0; b < parts_->buckets.size(); ++b) {
    auto& bucket = parts_->buckets[b];
    if (!parts_->holders.empty()) {
      for (auto& name : bucket->fill_from_first(source, *parts_->holders[b])) differing.push_back(std::move(name));
    } else {
      bucket->fill(source);
    }
    for (const auto& planned : bucket->plan().weights) done += planned.weight->numel();
    if (progress) progress(done, all);
  }
  parts_->shared.updated.record(parts_->shared.device());
  return differing;
}

void Engine::resume(layout::Source& source, const std::function<void(std::int64_t, std::int64_t)>& progress) {
  auto holders = std::exchange(parts_->holders, {});
  fill(source, progress);
  parts_->holders = std::move(holders);
}

std::unique_ptr<strategy::UnitHooks> Engine::hooks(std::size_t index) {
  return std::make_unique<Hooks>(*parts_, index);
}

void Engine::begin_micro_step(std::int64_t index) {
  parts_->micro_step = index;
  parts_->shared.transit.begin_micro_step(index);
}

std::vector<strategy::Slice> Engine::Parts::device_slices(std::size_t states) {
  std::vector<strategy::Slice> slices;
  for (std::size_t t = 0; t < trained.size(); ++t) {
    const auto [b, w] = trained[t];
    if (buckets[b]->on_host()) continue;
    const auto& reducer = *reducers[b];
    slices.push_back({&buckets[b]->weight(w), buckets[b]->master_slice(w, reducer.raw()), reducer.slice(w),
                      device_state(t, states)});
  }
  return slices;
}

// What the rule keeps of a trained weight on the device; at least so many tensors.
const std::vector<at::Tensor>& Engine::Parts::device_state(std::size_t t, std::size_t states) {
  state.resize(trained.size());
  const auto [b, w] = trained[t];
  while (state[t].size() < states) {
    state[t].push_back(at::zeros_like(buckets[b]->master_slice(w, reducers[b]->raw())));
  }
  return state[t];
}

void Engine::update(strategy::OptimizerRule& rule, const strategy::Update& update, const std::function<void()>& after) {
  const at::NoGradGuard no_grad;
  parts_->finish();
  auto slices = parts_->device_slices(rule.states());
  if (!slices.empty()) rule.apply(slices, update);
  parts_->host.start(rule, update, /*publish=*/!after);
  if (after) {
    parts_->host.wait_all();
    after();
    parts_->host.publish_all();
  }
  for (auto& bucket : parts_->buckets) {
    if (bucket->plan().trainable) bucket->publish();
  }
  parts_->shared.updated.record(parts_->shared.device());
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
