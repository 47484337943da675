#include "comm/call_log.h"

#include <capstan/base/text.h>

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "comm/failure.h"

namespace capstan::comm {

std::string Call::text() const {
  return cat(operation, label.empty() ? "" : " '", label, label.empty() ? "" : "'", " of group ", group, ", call ",
             number);
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
  slot.call.operation = operation;
  slot.call.group = group;
  slot.call.label = label;
  slot.call.number = number;
  slot.call.start = std::chrono::steady_clock::now();
  if (const auto tracer = tracer_) {
    const auto name = span_name(slot.call);
    lock.unlock();
    tracer->begin(monitor::Span::collective, name);
  }
  return ticket;
}

void CallLog::end(std::uint64_t ticket, c10::Device device) {
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[ticket % slots_.size()];
  if (slot.ticket != ticket) return;  // overwritten: more calls in flight than the ring holds
  if (const auto tracer = tracer_) {
    const auto name = span_name(slot.call);
    lock.unlock();
    tracer->end(monitor::Span::collective, name);
    lock.lock();
  }
  if (device.is_cpu() || device.is_meta()) {
    slot.state = State::free;
    return;
  }
  if (!slot.after) slot.after.emplace(device.type());
  slot.after->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  slot.state = State::queued;
}

void CallLog::trace(std::shared_ptr<monitor::Tracer> tracer) {
  const std::scoped_lock lock(mutex_);
  tracer_ = std::move(tracer);
}

std::string CallLog::span_name(const Call& call) {
  return call.label.empty() ? call.operation : cat(call.operation, " '", call.label, "'");
}

std::vector<Call> CallLog::in_flight() {
  const std::scoped_lock lock(mutex_);
  std::vector<Call> calls;
  for (std::uint64_t i = next_ > slots_.size() ? next_ - slots_.size() : 0; i < next_; ++i) {
    Slot& slot = slots_[i % slots_.size()];
    if (slot.state == State::queued && slot.after->query()) slot.state = State::free;
    if (slot.state != State::free) calls.push_back(slot.call);
  }
  return calls;
}

bool CallLog::is_running() const {
  const std::scoped_lock lock(mutex_);
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.state == State::running; });
}

std::optional<Call> CallLog::last() const {
  const std::scoped_lock lock(mutex_);
  if (next_ == 0) return std::nullopt;
  return slots_[(next_ - 1) % slots_.size()].call;
}

}  // namespace capstan::comm
