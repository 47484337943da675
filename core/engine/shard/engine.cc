#include "shard/engine.h"

#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>

#include <utility>

#include "shard/fill.h"
#include "shard/footprint.h"

namespace capstan::shard {

Engine::Engine(EngineOptions options, const std::vector<nn::Unit*>& units, const GroupOf& group_of)
    : shared_(std::move(options), units), protocol_(shared_.plan, shared_.options, *this), host_(shared_) {
  for (std::size_t b = 0; b < shared_.plan.buckets.size(); ++b) {
    parameters_.emplace_back(plan(b), shared_, group_of);
    reducers_.emplace_back(parameters_.back(), shared_, group_of);
    for (std::size_t w = 0; plan(b).trainable && w < plan(b).weights.size(); ++w) trained_.push_back({b, w});
  }
  for (const auto& bucket : shared_.plan.buckets) {
    if (!shared_.options.policy.sync_module_states) break;
    holders_.push_back(group_of(bucket.weights.front().weight->records().front().data_axes, 0));
  }
  shared_.allocate_staging();
  for (std::size_t b = 0; b < parameters_.size(); ++b) {
    parameters_[b].allocate();
    reducers_[b].allocate();
    if (plan(b).on_host && plan(b).trainable) {
      host_.add(parameters_[b], b);
      parameters_[b].set_await_update([this, b] { host_.wait(b); });
    }
  }
  scales_.emplace(parameters_, shared_, group_of);
  if (shared_.options.optimizer) make_joint_updates(group_of);
}

void Engine::reduce(std::size_t bucket, const Reduction& how) {
  in_flight_.begin(bucket, plan(bucket).full_elements, [this](std::size_t done) { reducers_[done].free_inputs(); });
  reducers_[bucket].reduce(how);
  if (!how.offloads) return;
  if (how.last) measure_offloaded(bucket);
  reducers_[bucket].offload();
}

void Engine::add_rows(std::size_t bucket, const Reduction& how) {
  in_flight_.begin(bucket, plan(bucket).gradients.table->exchanged,
                   [this](std::size_t done) { reducers_[done].free_inputs(); });
  reducers_[bucket].add_rows(how);
}

// The current stream waits for all sums.
void Engine::finish() {
  for (auto& reducer : reducers_) reducer.finish();
  in_flight_.clear();
}

std::vector<std::string> Engine::fill(layout::Source& source,
                                      const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const at::NoGradGuard no_grad;
  const auto all = shard::parameters(shared_.plan, false);
  std::int64_t done = 0;
  std::vector<std::string> differing;
  for (std::size_t b = 0; b < parameters_.size(); ++b) {
    auto& bucket = parameters_[b];
    auto* everyone = holders_.empty() ? nullptr : holders_[b].get();
    for (auto& name : shard::fill(bucket, shared_, source, everyone)) differing.push_back(std::move(name));
    protocol_.invalidate(b);
    for (const auto& planned : bucket.plan().weights) done += planned.weight->numel();
    if (progress) progress(done, all);
  }
  scales_->update();
  shared_.updated.record(shared_.device());
  return differing;
}

void Engine::resume(layout::Source& source, const std::function<void(std::int64_t, std::int64_t)>& progress) {
  auto holders = std::exchange(holders_, {});
  fill(source, progress);
  holders_ = std::move(holders);
}

void Engine::begin_backward(std::int64_t index) {
  protocol_.begin_backward(index);
  if (index == 0 || protocol_.completes_gradients()) shared_.offload.begin_micro_step(index);
}

void Engine::join() {
  finish();
  for (auto& reducer : reducers_) reducer.forget();
}

std::shared_ptr<void> Engine::sum_apart(const ops::GraphRecorder::Apart& apart) {
  const auto before = std::exchange(shared_.apart, apart);
  return {this, [this, before](void*) { shared_.apart = before; }};
}

void Engine::drop_gradients() {
  for (auto& reducer : reducers_) reducer.forget();
  in_flight_.clear();
  for (auto& bucket : parameters_) bucket.full().drop_gradients();
}

optimizer::Slice Engine::device_slice(const OwnedSlice& owned, double lr, bool copies) {
  return parameters_[owned.bucket].masters().views(owned, reducers_[owned.bucket].slice(owned.weight), lr, copies);
}

void Engine::make_joint_updates(const GroupOf& group_of) {
  auto updates = joint_updates(shared_.plan, shared_.options);
  if (updates.empty()) return;
  auto group = group_of(joint_axes(shared_.plan, shared_.options), 0);
  joint_.emplace(std::move(updates), std::move(group), shared_.streams.reduce);  // no gradient is summed then
  for (auto& slice : shared_.slices) slice.is_joint = slice.record && joint_->take(*slice.record);
}

// Masters in host memory are updated here too, and the next forward does not overlap with that: ranks exchange parts.
void Engine::update_jointly(double lr, const optimizer::Update& update, bool copies) {
  if (!joint_) return;
  host_.wait_all();
  const auto slice_of = [&](std::size_t place) {
    const auto& owned = shared_.slices[place];
    return plan(owned.bucket).on_host ? host_.arrived_slice(owned, lr, copies) : device_slice(owned, lr, copies);
  };
  joint_->run(slice_of, update);
}

void Engine::update(double lr, const optimizer::Update& update, const std::function<void()>& after) {
  const at::NoGradGuard no_grad;
  finish();
  shared_.allocate_states();
  const bool copies = !after;  // `after` may still change the masters
  update_jointly(lr, update, copies);
  for (auto* rule : rules_of(shared_.slices)) {
    std::vector<optimizer::Slice> slices;
    for (const auto& owned : shared_.slices) {
      if (owned.group->rule.get() != rule || owned.is_joint || plan(owned.bucket).on_host) continue;
      slices.push_back(device_slice(owned, lr, copies));
      auto& slice = slices.back();
      if (slice.grad.defined() && !rule->is_fused()) slice.grad = slice.grad.to(slice.master.scalar_type());
    }
    if (!slices.empty()) rule->apply(slices, update);
  }
  host_.start(lr, update, /*publish=*/!after);
  if (after) {
    host_.wait_all();
    after();
    host_.publish_all();
  }
  publish(copies);
}

void Engine::write_masters(const std::function<void()>& write) {
  const at::NoGradGuard no_grad;
  finish();
  host_.wait_all();
  write();
  host_.publish_all();
  publish(/*copied=*/false);
}

// Called after masters of trained buckets have changed, and on_host's have been published: updates all copies of them,
// or with `copied` all but those that fused rules have written.
void Engine::publish(bool copied) {
  for (std::size_t b = 0; b < parameters_.size(); ++b) {
    if (!plan(b).trainable) continue;
    parameters_[b].publish(copied && are_fused(slices_of(shared_.slices, b)));
    protocol_.invalidate(b);
  }
  scales_->update();
  shared_.updated.record(shared_.device());
}

HostUpdateTimes Engine::host_update_times() {
  finish_update();
  return host_.times();
}

std::vector<layout::Footprint> Engine::footprint() const { return shard::footprint(shared_.plan, shared_.options); }

}  // namespace capstan::shard
