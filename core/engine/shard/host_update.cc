#include "shard/host_update.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
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

const HostUpdate::Item& HostUpdate::item_of(std::size_t bucket) const {
  const auto found = std::find_if(items_.begin(), items_.end(), [&](const Item& item) { return item.index == bucket; });
  CAPSTAN_ASSERT(found != items_.end());
  return *found;
}

optimizer::Slice HostUpdate::views_of(const OwnedSlice& owned, const BucketParameters& bucket, double lr,
                                      bool publish) const {
  const auto gradient = bucket.plan().weights[owned.weight].of_shard(shared_.offload.gradient(bucket.plan()));
  return bucket.masters().views(owned, gradient, lr, publish);
}

optimizer::Slice HostUpdate::slice_of(const OwnedSlice& owned, const Item& item, const Job& job) const {
  auto slice = views_of(owned, *item.bucket, job.lr, job.publish);
  if (!owned.group->rule->is_fused()) slice.grad = slice.grad.to(slice.master.scalar_type());
  return slice;
}

optimizer::Slice HostUpdate::arrived_slice(const OwnedSlice& owned, double lr, bool publish) const {
  const auto& bucket = *item_of(owned.bucket).bucket;
  shared_.offload.arrived(bucket.plan()).synchronize();
  return views_of(owned, bucket, lr, publish);
}

void HostUpdate::start(double lr, const optimizer::Update& update, bool publish) {
  if (items_.empty()) return;
  wait_all();
  shared_.allocate_states();  // on this thread
  // The host waits here for the step's norm: nothing can be updated without it.
  const Job job{lr, strategy::in_host_memory(update), publish};
  const std::lock_guard lock(mutex_);
  for (auto& item : items_) item.done = false;
  job_ = [this, job] { update_all(job); };
  if (!thread_.joinable()) thread_ = std::thread([this, threads = at::get_num_threads()] { work(threads); });
  changed_.notify_all();
}

void HostUpdate::update_all(const Job& job) {
  const at::NoGradGuard no_grad;
  ++times_.updates;
  times_.elements = 0;
  timed(times_.total_s, [&] {
    for (std::size_t n = 0; n < items_.size(); ++n) {
      const auto i = next_item();
      update_item(i, job);
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

void HostUpdate::update_item(std::size_t i, const Job& job) {
  const auto& item = items_[i];
  auto& bucket = *item.bucket;
  times_.elements += bucket.plan().shard_elements;
  timed(times_.wait_s, [&] { shared_.offload.arrived(bucket.plan()).synchronize(); });
  if (!update_in_parts(item, job)) {
    for (auto* rule : rules_of(slices_of(shared_.slices, item.index)))
      timed(times_.rule_s, [&] { update_by(*rule, item, job); });
    if (job.publish && !are_fused(slices_of(shared_.slices, item.index)))
      timed(times_.send_s, [&] { bucket.masters().cast_to_send(0, bucket.plan().shard_elements); });
  }
  if (job.publish) timed(times_.send_s, [&] { bucket.masters().send_up(); });
}

void HostUpdate::update_by(optimizer::Rule& rule, const Item& item, const Job& job) {
  std::vector<optimizer::Slice> slices;
  for (const auto& owned : slices_of(shared_.slices, item.index)) {
    if (owned.group->rule.get() == &rule && !owned.is_joint) slices.push_back(slice_of(owned, item, job));
  }
  if (!slices.empty()) rule.apply(slices, job.update);
}

// Where the rule updates elements and does not cast parameters itself, they are cast while the masters are still in the
// cache: a thread's share of 1 Mi elements with state and gradient (18 MiB) fits a core's second-level cache from some
// ten threads on. False: nothing was done.
bool HostUpdate::update_in_parts(const Item& item, const Job& job) {
  constexpr std::int64_t part = std::int64_t{1} << 20;
  const auto all = slices_of(shared_.slices, item.index);
  const auto takes = [](const OwnedSlice& owned) { return !owned.record && !owned.group->rule->is_fused(); };
  if (!job.publish || !std::all_of(all.begin(), all.end(), takes)) return false;
  for (const auto& owned : all) {
    const auto full = slice_of(owned, item, job);
    const auto begin_in_bucket = item.bucket->plan().weights[owned.weight].shard_offset;
    for (std::int64_t begin = 0; begin < full.master.numel(); begin += part) {
      const auto n = std::min(part, full.master.numel() - begin);
      auto slice = full;
      slice.master = full.master.narrow(0, begin, n);
      slice.grad = full.grad.narrow(0, begin, n);
      for (auto& state : slice.state) state = state.narrow(0, begin, n);
      std::vector<optimizer::Slice> one{std::move(slice)};
      timed(times_.rule_s, [&] { owned.group->rule->apply(one, job.update); });
      timed(times_.send_s, [&] { item.bucket->masters().cast_to_send(begin_in_bucket + begin, n); });
    }
  }
  return true;
}

template <class Done>
void HostUpdate::wait_until(const Done& done) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !job_ || done(); });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void HostUpdate::wait(std::size_t bucket) {
  wait_until([&item = item_of(bucket)] { return item.done; });
}

void HostUpdate::wait_all() {
  wait_until([] { return false; });
}

void HostUpdate::publish_all() {
  for (auto& item : items_) item.bucket->masters().publish_from_host();
}

}  // namespace capstan::shard
