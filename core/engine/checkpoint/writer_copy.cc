#include "checkpoint/writer_copy.h"

#include <capstan/base/text.h>
#include <capstan/ops/pinned.h>

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "checkpoint/commit.h"

namespace capstan::checkpoint {
namespace {

c10::Device device_of(const std::vector<TensorBox>& boxes) {
  for (const auto& box : boxes) {
    if (!box.data.is_cpu()) return box.data.device();
  }
  return c10::Device(c10::kCPU);
}

c10::Stream current_on(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

/// The boxes with views of the buffer as their data.
std::vector<TensorBox> placed(const std::vector<TensorBox>& boxes, const at::Tensor& buffer) {
  auto out = boxes;
  std::vector<TensorBox*> order;
  for (auto& box : out) order.push_back(&box);
  // Larger elements first: then each is aligned without a gap.
  std::stable_sort(order.begin(), order.end(), [](const TensorBox* a, const TensorBox* b) {
    return a->data.element_size() > b->data.element_size();
  });
  std::int64_t at = 0;
  for (auto* box : order) {
    const auto bytes = static_cast<std::int64_t>(box->data.nbytes());
    box->data = buffer.narrow(0, at, bytes).view(box->data.scalar_type()).view(box->data.sizes());
    at += bytes;
  }
  return out;
}

void copy_box(const TensorBox& to, const TensorBox& from) {
  auto host = to.data;
  host.copy_(from.data.detach(), /*non_blocking=*/true);
}

}  // namespace

/// Copies from a GPU in flight.
struct HostCopy::Flight {
  explicit Flight(c10::Device on)
      : device(on),
        stream(c10::impl::VirtualGuardImpl(on.type()).getStreamFromGlobalPool(on)),
        copied(on.type()),
        held(on.type(), c10::EventFlag::BACKEND_DEFAULT),
        released(on.type(), c10::EventFlag::BACKEND_DEFAULT) {}

  void begin(const std::vector<TensorBox>& to, const std::vector<TensorBox>& from) {
    const auto current = current_on(device);
    c10::Event now(device.type());
    now.record(current);
    now.block(stream);
    const c10::StreamGuard guard(stream);
    sources = from;
    for (const bool until_update : {false, true}) {
      for (std::size_t i = 0; i < to.size(); ++i) {
        if (!from[i].data.is_cpu() && from[i].until_update == until_update) copy_box(to[i], from[i]);
      }
      copied.record(stream);
      if (!until_update) copied.block(current);
    }
  }

  c10::Device device;
  c10::Stream stream;
  std::vector<TensorBox> sources;  ///< alive while they are read
  c10::Event copied;
  c10::Event held;  ///< hold() on the waiting stream, with times; and when that resumed
  c10::Event released;
};

HostCopy::HostCopy(bool pinned) : pinned_(pinned) {}
HostCopy::~HostCopy() = default;

void HostCopy::reserve(const std::vector<TensorBox>& boxes) {
  const auto bytes = Writer::footprint(bytes_of(boxes)).bytes;
  if (buffer_.defined() && buffer_.numel() >= bytes) return;
  buffer_.reset();  // the old one is freed first
  try {
    buffer_ = ops::host_zeros(bytes, at::kByte, pinned_, device_of(boxes));
  } catch (const c10::Error& error) {
    throw Error(cat("no ", bytes_text(static_cast<double>(bytes)),
                    " of host memory for the copy of a checkpoint: ", error.what_without_backtrace()),
                "set checkpoint.asynchronous = false, which needs no copy, or ask for more memory");
  }
}

std::vector<TensorBox> HostCopy::begin(const std::vector<TensorBox>& boxes) {
  flight_.reset();
  reserve(boxes);
  auto copies = placed(boxes, buffer_);
  if (const auto device = device_of(boxes); !device.is_cpu()) {
    flight_ = std::make_unique<Flight>(device);
    try {
      flight_->begin(copies, boxes);
    } catch (...) {
      // No copy may still write to the buffer when it is reused.
      c10::impl::VirtualGuardImpl(device.type()).synchronizeStream(flight_->stream);
      flight_.reset();
      throw;
    }
  }
  leave(copies, boxes);
  return copies;
}

// finish() copies boxes in host memory that do not change until the update.
void HostCopy::leave(const std::vector<TensorBox>& to, const std::vector<TensorBox>& from) {
  host_held_s_ = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!from[i].data.is_cpu()) continue;
    if (from[i].until_update) {
      left_.emplace_back(to[i], from[i]);
    } else {
      copy_box(to[i], from[i]);
    }
  }
  left_wait_ = left_done_.emplace().get_future();
}

void HostCopy::finish() {
  {
    const auto done = std::exchange(left_done_, std::nullopt);  // its destructor lets hold() continue
    for (const auto& [to, from] : std::exchange(left_, {})) copy_box(to, from);
  }
  if (flight_) flight_->copied.synchronize();
}

void HostCopy::hold() {
  if (left_wait_.valid()) {
    const auto begin = std::chrono::steady_clock::now();
    left_wait_.wait();
    left_wait_ = {};
    host_held_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  if (!flight_ || flight_->released.was_marked_for_recording()) return;
  const auto current = current_on(flight_->device);
  flight_->held.record(current);
  flight_->copied.block(current);
  flight_->released.record(current);
}

bool HostCopy::is_settled() const { return !flight_ || flight_->released.query(); }

double HostCopy::held_s() const {
  if (!flight_ || !flight_->released.was_marked_for_recording()) return host_held_s_;
  flight_->released.synchronize();
  return host_held_s_ + flight_->held.elapsedTime(flight_->released) / 1000;
}

}  // namespace capstan::checkpoint
