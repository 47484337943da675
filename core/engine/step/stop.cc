#include "step/stop.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <csignal>
#include <cstring>

namespace capstan::step {

void Stop::ask(int signal, Clock::time_point at) noexcept {
  const auto now = at.time_since_epoch().count();
  const auto before = last_.exchange(now);
  int first = 0;
  const bool is_first = signal_.compare_exchange_strong(first, signal);
  bool again = now - before > std::chrono::nanoseconds(together).count();
  if (signal == SIGINT) {
    const auto by_hand = last_interrupt_.exchange(now);
    again = by_hand == 0 || now - by_hand > std::chrono::nanoseconds(together_by_hand).count();
  }
  if (is_first) {
    asks_.store(1);
  } else if (again) {
    asks_.store(2);
  }
}

std::string Stop::reason() const {
  const char* const name = sigabbrev_np(signal());
  return signal() == 0 ? "" : name == nullptr ? "a signal" : cat("SIG", name);
}

bool Stop::time_is_up(std::chrono::duration<double> needed) const {
  return deadline && *deadline - Clock::now() < needed;
}

void StopAgreement::check() const {
  const bool asked = stop_.asked() || (is_time_ && is_time_());
  const auto most = at::full({1}, asked ? 1 : 0, at::kLong);
  group_->all_reduce(most, comm::ReduceOp::max, "all-reduce stop request");
  if (most.item<std::int64_t>() > 0) throw Stopped();
}

}  // namespace capstan::step
