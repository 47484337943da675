#include "checkpoint/writer_copy.h"

#include <capstan/base/text.h>
#include <capstan/ops/pinned.h>

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "checkpoint/commit.h"

namespace capstan::checkpoint {
namespace {

c10::Device device_of(const std::vector<TensorBox>& boxes) {
  for (const auto& box : boxes) {
    if (!box.data.is_cpu()) return box.data.device();
  }
  return c10::Device(c10::kCPU);
}

/// A stream beside training's, which starts behind what that has queued; on CPU nothing.
class SideStream {
 public:
  explicit SideStream(c10::Device device) {
    if (device.is_cpu()) return;
    const c10::impl::VirtualGuardImpl guard(device.type());
    stream_ = guard.getStreamFromGlobalPool(device);
    c10::Event now(device.type());
    now.record(guard.getStream(device));
    now.block(*stream_);
    guard_.reset_stream(*stream_);
  }
  void wait() const {
    if (stream_) c10::impl::VirtualGuardImpl(stream_->device_type()).synchronizeStream(*stream_);
  }

 private:
  std::optional<c10::Stream> stream_;
  c10::OptionalStreamGuard guard_;
};

}  // namespace

void HostCopy::reserve(const std::vector<TensorBox>& boxes) {
  const auto bytes = Writer::footprint(bytes_of(boxes)).bytes;
  if (buffer_.defined() && buffer_.numel() >= bytes) return;
  buffer_.reset();  // the old one goes first
  try {
    buffer_ = ops::host_zeros(bytes, at::kByte, pinned_, device_of(boxes));
  } catch (const c10::Error& error) {
    throw Error(cat("no ", bytes_text(static_cast<double>(bytes)),
                    " of host memory for the copy of a checkpoint: ", error.what_without_backtrace()),
                "set checkpoint.async = false, which needs no copy, or ask for more memory");
  }
}

std::vector<TensorBox> HostCopy::take(const std::vector<TensorBox>& boxes) {
  reserve(boxes);
  auto out = boxes;
  std::vector<TensorBox*> order;
  for (auto& box : out) order.push_back(&box);
  // Larger elements first: then each lies aligned without a gap.
  std::stable_sort(order.begin(), order.end(), [](const TensorBox* a, const TensorBox* b) {
    return a->data.element_size() > b->data.element_size();
  });
  const SideStream side(device_of(boxes));
  std::int64_t at = 0;
  for (auto* box : order) {
    const auto bytes = static_cast<std::int64_t>(box->data.nbytes());
    auto host = buffer_.narrow(0, at, bytes).view(box->data.scalar_type()).view(box->data.sizes());
    host.copy_(box->data.detach(), /*non_blocking=*/true);
    box->data = std::move(host);
    at += bytes;
  }
  side.wait();
  return out;
}

}  // namespace capstan::checkpoint
