#include "comm/side_stream.h"

namespace capstan::comm {
namespace {

c10::Stream current(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

}  // namespace

void Event::record(c10::Device device) {
  if (device.is_cpu() || device.is_meta()) return;
  if (!event_) event_ = std::make_shared<c10::Event>(device.type());
  event_->record(current(device));
}

void Event::wait(c10::Device device) const {
  if (event_) event_->block(current(device));
}

void Event::synchronize() const {
  if (event_) event_->synchronize();
}

bool Event::is_reached() const { return !event_ || event_->query(); }

SideStream::SideStream(c10::Device device, bool overlaps) : device_(device) {
  if (device.is_cpu() || device.is_meta() || !overlaps) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  stream_ = std::make_unique<c10::Stream>(guard.getStreamFromGlobalPool(device, /*isHighPriority=*/true));
}

SideStream::Use::Use(const SideStream& side, bool wait_for_current) {
  if (!side.stream_) return;
  if (wait_for_current) {
    c10::Event now(side.device_.type());
    now.record(current(side.device_));
    now.block(*side.stream_);
  }
  guard_.reset_stream(*side.stream_);
}

}  // namespace capstan::comm
