#include "train/collective_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <capstan/base/clock.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <numeric>

namespace capstan::train {
namespace {

using SteadyClock = std::chrono::steady_clock;

bool is_counted(monitor::Span kind, std::string_view name) {
  return kind == monitor::Span::collective && name.find("'checkpoint ") == std::string_view::npos;
}

}  // namespace

c10::Event timed_event(c10::Device gpu) {
  c10::Event event(gpu.type(), c10::EventFlag::BACKEND_DEFAULT);  // the flag that keeps times
  event.record(c10::impl::VirtualGuardImpl(gpu.type()).getStream(gpu));
  return event;
}

void CollectiveClock::begin(monitor::Span kind, std::string_view name) noexcept {
  if (!is_counted(kind, name)) return;
  try {
    const std::lock_guard guard(mutex_);
    if (!works_) return;
    if (device_.is_cpu()) {
      open_[std::string(name)] = SteadyClock::now();
    } else if (steps_ % gpu_every == 0) {
      open_on_gpu_.insert_or_assign(std::string(name), timed_event(device_));
    }
  } catch (const std::exception& error) {
    give_up(error);
  }
}

void CollectiveClock::end(monitor::Span kind, std::string_view name) noexcept {
  if (!is_counted(kind, name)) return;
  try {
    const std::lock_guard guard(mutex_);
    if (const auto found = open_.find(name); found != open_.end()) {
      seconds_ += seconds_since(found->second);
      open_.erase(found);
    }
    if (const auto found = open_on_gpu_.find(name); found != open_on_gpu_.end()) {
      calls_.push_back({std::move(found->second), timed_event(device_)});
      open_on_gpu_.erase(found);
    }
  } catch (const std::exception& error) {
    give_up(error);
  }
}

// What only watches a run does not end it.
void CollectiveClock::give_up(const std::exception& error) {
  const std::lock_guard guard(mutex_);
  works_ = false;
  log::debug(cat("collectives are not measured from here on: ", error.what()));
}

std::optional<double> CollectiveClock::next_step() {
  const std::lock_guard guard(mutex_);
  ++steps_;
  if (!works_) return {};
  if (!device_.is_cpu()) return next_gpu_step();
  return std::exchange(seconds_, 0.0);
}

// The step before is over on the GPU, this one is only queued.
std::optional<double> CollectiveClock::next_gpu_step() {
  const auto over = std::exchange(last_, std::exchange(calls_, {}));
  if (over.empty()) return {};
  double milliseconds = 0;
  for (const auto& call : over) {
    if (!call.after.query()) return {};
    milliseconds += call.before.elapsedTime(call.after);
  }
  return milliseconds / 1000;
}

void CollectiveClock::forget() {
  const std::lock_guard guard(mutex_);
  seconds_ = 0;
  calls_.clear();
}

monitor::Values slowest_rank(const std::vector<double>& seconds) {
  if (seconds.size() < 2) return {};
  const auto least = std::min_element(seconds.begin(), seconds.end());
  const double others = std::accumulate(seconds.begin(), seconds.end(), -*least);
  return {{"slowest_rank", static_cast<double>(least - seconds.begin())},
          {"slowest_rank_wait_s", others / static_cast<double>(seconds.size() - 1) - *least}};
}

}  // namespace capstan::train
