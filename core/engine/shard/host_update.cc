#include "shard/host_update.h"

#include <ATen/Parallel.h>
#include <capstan/base/error.h>
#include <capstan/base/log.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace capstan::shard {
namespace {

// Adds up the time of a call.
template <class Call>
void timed(double& seconds, const Call& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

HostUpdate::~HostUpdate() {
  try {
    wait_all();
  } catch (const std::exception& error) {
    log::error(error.what());
  }
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HostUpdate::work(int threads) {
  at::set_num_threads(threads);  // OpenMP keeps the number for each thread that starts a team
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || job_; });
    if (!job_) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      job_();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    job_ = nullptr;
    changed_.notify_all();
  }
}

void HostUpdate::add(BucketParameters& bucket) {
  Item item;
  item.bucket = &bucket;
  item.state.resize(bucket.plan().weights.size());
  items_.push_back(std::move(item));
}

void HostUpdate::add_held(HeldMemory& memory) const {
  for (const auto& item : items_) {
    for (const auto& weight : item.state) {
      for (const auto& state : weight) memory.add(Purpose::optimizer_state, state, true);
    }
  }
}

std::size_t HostUpdate::item_of(const BucketParameters& bucket) const {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].bucket == &bucket) return i;
  }
  return items_.size();
}

std::vector<strategy::Slice> HostUpdate::slices(std::size_t index, std::size_t states) {
  auto& item = items_[index];
  const auto gradient = shared_.offload.gradient(item.bucket->plan());
  std::vector<strategy::Slice> slices;
  for (std::size_t w = 0; w < item.state.size(); ++w) {
    const auto& planned = item.bucket->plan().weights[w];
    strategy::Slice slice{planned.weight.get(), item.bucket->masters().slice(w, false), planned.of_shard(gradient), {}};
    while (item.state[w].size() < states) {
      const auto& buffer = *item.bucket->plan().buffer(Purpose::optimizer_state, w);
      item.state[w].push_back(shard::allocate(buffer, shared_.device()));
    }
    slice.state = item.state[w];
    slices.push_back(std::move(slice));
  }
  return slices;
}

void HostUpdate::start(strategy::OptimizerRule& rule, const strategy::Update& update, bool publish) {
  if (items_.empty()) return;
  wait_all();
  for (std::size_t i = 0; i < items_.size(); ++i) (void)slices(i, rule.states());  // allocated on this thread
  // The host waits here for the step's norm: nothing can be updated without it.
  const c10::Device host(c10::DeviceType::CPU);
  const strategy::Update here{update.lr, update.count.defined() ? update.count.to(host).clone() : update.count,
                              update.grad_scale.defined() ? update.grad_scale.to(host) : update.grad_scale,
                              update.skip.defined() ? update.skip.to(host) : update.skip};
  const std::lock_guard lock(mutex_);
  for (auto& item : items_) item.done = false;
  job_ = [this, &rule, here, publish] { update_all(rule, here, publish); };
  if (!thread_.joinable()) thread_ = std::thread([this, threads = at::get_num_threads()] { work(threads); });
  changed_.notify_all();
}

void HostUpdate::update_all(strategy::OptimizerRule& rule, const strategy::Update& update, bool publish) {
  const at::NoGradGuard no_grad;
  ++times_.updates;
  times_.elements = 0;
  timed(times_.total_s, [&] {
    for (std::size_t n = 0; n < items_.size(); ++n) {
      const auto i = next_item();
      update_item(i, rule, update, publish);
      const std::lock_guard lock(mutex_);
      items_[i].done = true;
      changed_.notify_all();
    }
  });
}

// The next forward needs the first bucket, whose gradients arrive last: until they do, others are updated.
std::size_t HostUpdate::next_item() const {
  std::size_t last = items_.size();
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].done) continue;
    if (shared_.offload.arrived(items_[i].bucket->plan()).is_reached()) return i;
    last = i;
  }
  return last;
}

void HostUpdate::update_item(std::size_t i, strategy::OptimizerRule& rule, const strategy::Update& update,
                             bool publish) {
  auto& bucket = *items_[i].bucket;
  times_.elements += bucket.plan().shard_elements;
  timed(times_.wait_s, [&] { shared_.offload.arrived(bucket.plan()).synchronize(); });
  auto all = slices(i, rule.states());
  if (!rule.is_fused()) {
    for (auto& slice : all) slice.grad = slice.grad.to(slice.master.scalar_type());
  }
  if (rule.is_fused()) {
    for (std::size_t w = 0; publish && w < all.size(); ++w) all[w].copy = bucket.masters().copy_slice(w, false);
    timed(times_.rule_s, [&] { rule.apply(all, update); });
  } else if (rule.is_elementwise() && publish) {
    update_in_parts(bucket, all, rule, update);
  } else {
    timed(times_.rule_s, [&] { rule.apply(all, update); });
    if (publish) timed(times_.send_s, [&] { bucket.masters().cast_to_send(0, bucket.plan().shard_elements); });
  }
  if (publish) timed(times_.send_s, [&] { bucket.masters().send_up(); });
}

// Parameters are cast while the masters are still in the cache: a thread's share of 1 Mi elements with state and
// gradient (18 MiB) fits a core's second-level cache from some ten threads on.
void HostUpdate::update_in_parts(BucketParameters& bucket, std::vector<strategy::Slice>& all,
                                 strategy::OptimizerRule& rule, const strategy::Update& update) {
  constexpr std::int64_t part = std::int64_t{1} << 20;
  for (std::size_t w = 0; w < all.size(); ++w) {
    const auto& full = all[w];
    const auto size = full.master.numel();
    for (std::int64_t begin = 0; begin < size; begin += part) {
      const auto n = std::min(part, size - begin);
      strategy::Slice slice{full.weight, full.master.narrow(0, begin, n), full.grad.narrow(0, begin, n), {}};
      for (const auto& state : full.state) slice.state.push_back(state.narrow(0, begin, n));
      std::vector<strategy::Slice> one{std::move(slice)};
      timed(times_.rule_s, [&] { rule.apply(one, update); });
      timed(times_.send_s, [&] { bucket.masters().cast_to_send(bucket.plan().weights[w].shard_offset + begin, n); });
    }
  }
}

template <class Done>
void HostUpdate::wait_until(const Done& done) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !job_ || done(); });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void HostUpdate::wait(const BucketParameters& bucket) {
  const auto index = item_of(bucket);
  if (index < items_.size()) wait_until([&] { return items_[index].done; });
}

void HostUpdate::wait_all() {
  wait_until([] { return false; });
}

void HostUpdate::publish_all() {
  for (auto& item : items_) item.bucket->masters().publish_from_host();
}

}  // namespace capstan::shard
