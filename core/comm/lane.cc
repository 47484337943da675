#include "comm/lane.h"

namespace capstan::comm {
namespace {

c10::Stream current(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

}  // namespace

void Mark::record(c10::Device device) {
  if (device.is_cpu() || device.is_meta()) return;
  if (!event_) event_ = std::make_shared<c10::Event>(device.type());
  event_->record(current(device));
}

void Mark::wait(c10::Device device) const {
  if (event_) event_->block(current(device));
}

void Mark::synchronize() const {
  if (event_) event_->synchronize();
}

bool Mark::is_reached() const { return !event_ || event_->query(); }

Lane::Lane(c10::Device device, bool beside, bool high_priority) : device_(device) {
  if (device.is_cpu() || device.is_meta() || !beside) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  stream_ = std::make_unique<c10::Stream>(guard.getStreamFromGlobalPool(device, high_priority));
}

Lane::Use::Use(const Lane& lane, bool wait_for_current) {
  if (!lane.stream_) return;
  if (wait_for_current) {
    c10::Event now(lane.device_.type());
    now.record(current(lane.device_));
    now.block(*lane.stream_);
  }
  guard_.reset_stream(*lane.stream_);
}

}  // namespace capstan::comm
