#include "peers/call_log.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "peers/failure.h"

namespace capstan::peers {
namespace {

// What a tracer calls it: "all-gather 'fsdp blocks.3'".
std::string span_name(const CollectiveCall& call) {
  return call.label.empty() ? call.operation : cat(call.operation, " '", call.label, "'");
}

}  // namespace

std::string CollectiveCall::text() const {
  return cat(operation, label.empty() ? "" : " '", label, label.empty() ? "" : "'", " of group ", group, ", call ",
             number);
}

std::string CollectiveCall::duration() const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  return cat(number_text(std::round(passed.count() * 10) / 10), " s");
}

std::string transfer_group(const std::string& group, int from, int to) {
  return cat(group, " (", from, " to ", to, ")");
}

std::optional<std::vector<int>> transfer_ends(const std::string& group) {
  const auto begin = group.rfind(" (");
  if (begin == std::string::npos || group.back() != ')') return {};
  int from = 0;
  int to = 0;
  if (std::sscanf(group.c_str() + begin, " (%d to %d)", &from, &to) != 2) return {};
  return std::vector<int>{from, to};
}

CallLog::CallLog(std::shared_ptr<FailureState> failure, std::size_t capacity)
    : failure_(std::move(failure)), slots_(capacity) {}

std::uint64_t CallLog::begin(const char* operation, const std::string& group, std::string_view label,
                             std::int64_t number) {
  if (failure_) failure_->throw_if_failed();
  std::unique_lock lock(mutex_);
  const std::uint64_t ticket = next_++;
  Slot& slot = slots_[ticket % slots_.size()];
  slot.ticket = ticket;
  slot.state = State::running;
  slot.call = {operation, group, std::string(label), number, std::chrono::steady_clock::now()};
  if (const auto tracer = tracer_) {
    const auto name = span_name(slot.call);
    lock.unlock();
    tracer->begin(monitor::Span::collective, name);
  }
  return ticket;
}

std::unique_ptr<QueuedWork> CallLog::used(std::uint64_t ticket) {
  const std::scoped_lock lock(mutex_);
  Slot& slot = slots_[ticket % slots_.size()];
  return slot.ticket == ticket ? std::move(slot.queued) : nullptr;
}

void CallLog::end(std::uint64_t ticket, std::unique_ptr<QueuedWork> queued) {
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[ticket % slots_.size()];
  if (slot.ticket != ticket) return;  // overwritten: more calls in flight than the ring holds
  if (const auto tracer = tracer_) {
    const auto name = span_name(slot.call);
    lock.unlock();
    tracer->end(monitor::Span::collective, name);
    lock.lock();
  }
  slot.state = queued ? State::queued : State::free;
  if (queued) slot.queued = std::move(queued);
}

void CallLog::trace(std::shared_ptr<monitor::Tracer> tracer) {
  const std::scoped_lock lock(mutex_);
  tracer_ = std::move(tracer);
}

std::vector<CollectiveCall> CallLog::in_flight() {
  const std::scoped_lock lock(mutex_);
  std::vector<CollectiveCall> calls;
  for (std::uint64_t i = next_ > slots_.size() ? next_ - slots_.size() : 0; i < next_; ++i) {
    Slot& slot = slots_[i % slots_.size()];
    if (slot.state == State::queued && slot.queued->has_ended()) slot.state = State::free;
    if (slot.state != State::free) calls.push_back(slot.call);
  }
  return calls;
}

bool CallLog::is_running() const {
  const std::scoped_lock lock(mutex_);
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.state == State::running; });
}

std::optional<CollectiveCall> CallLog::last() const {
  const std::scoped_lock lock(mutex_);
  if (next_ == 0) return std::nullopt;
  return slots_[(next_ - 1) % slots_.size()].call;
}

}  // namespace capstan::peers
