#include "host_copies.h"

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <capstan/base/error.h>
#include <capstan/ops/pinned.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace recompute {

using namespace capstan;

namespace {

c10::Stream current(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

using Done = std::shared_ptr<c10::Event>;

}  // namespace

// Copies on a stream of their own; on a CPU they are done when the call returns.
class HostCopies::Copier {
 public:
  // What is queued on the current stream by now comes before the copy.
  Done copy(const at::Tensor& to, const at::Tensor& from, c10::Device device) {
    if (!device.is_cuda()) {
      to.copy_(from);
      return nullptr;
    }
    const c10::impl::VirtualGuardImpl guard(device.type());
    if (!stream_) stream_ = guard.getStreamFromGlobalPool(device, /*isHighPriority=*/true);
    c10::Event now(device.type());
    now.record(current(device));
    now.block(*stream_);
    const c10::StreamGuard on_stream(*stream_);
    to.copy_(from, /*non_blocking=*/true);
    auto done = std::make_shared<c10::Event>(device.type());
    done->record(*stream_);
    return done;
  }

 private:
  std::optional<c10::Stream> stream_;
};

// An input that waits.
struct HostCopies::Copy {
  Copy(std::shared_ptr<State> of, const at::Tensor& x)
      : state(std::move(of)),
        on_device(x),
        sizes(x.sizes().vec()),
        strides(x.strides().vec()),
        options(x.options()),
        bytes(static_cast<std::int64_t>(x.nbytes())) {}
  ~Copy();
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  // The beginning of its host memory, as a tensor like the input.
  at::Tensor on_host() const {
    return buffer.narrow(0, 0, bytes).view(c10::typeMetaToScalarType(options.dtype())).as_strided(sizes, strides);
  }

  std::shared_ptr<State> state;
  at::Tensor on_device;  // leaving, or back
  std::vector<std::int64_t> sizes, strides;
  at::TensorOptions options;
  std::int64_t bytes;
  at::Tensor buffer;  // its host memory; undefined on the meta device
  Done done;          // of the copy that was started last
  bool waits = true;  // backward has not asked for it
  std::weak_ptr<Copy> before;
};

struct HostCopies::State : std::enable_shared_from_this<HostCopies::State> {
  static constexpr std::size_t most_leaving = 2;

  std::function<at::Tensor()> keep(const at::Tensor& x);
  at::Tensor take(Copy& copy);
  void bring_back(Copy& copy);
  void begin(Copy& copy, bool leaves);
  static void wait_for(const Copy& copy);
  at::Tensor buffer_for(std::int64_t bytes, c10::Device device);

  Copier copier;
  std::vector<at::Tensor> unused;           // host memory of inputs that are back
  std::deque<std::weak_ptr<Copy>> leaving;  // by age, of the last ones
  std::weak_ptr<Copy> last;                 // that came in forward
  std::int64_t bytes = 0;                   // of all host memory
  std::int64_t copied = 0;                  // bytes, both ways
};

// Without a backward, as where a forward has thrown: the copy may still read and write.
HostCopies::Copy::~Copy() {
  if (!buffer.defined()) return;
  try {
    if (done) done->synchronize();
  } catch (const c10::Error&) {
    return;  // the device has failed, which whoever uses it says
  }
  state->unused.push_back(std::move(buffer));
}

// The smallest one that is large enough. Where all are too small, as when batches grow, one of them goes.
at::Tensor HostCopies::State::buffer_for(std::int64_t needed, c10::Device device) {
  std::sort(unused.begin(), unused.end(), [](const auto& a, const auto& b) { return a.numel() < b.numel(); });
  const auto found = std::find_if(unused.begin(), unused.end(), [&](const auto& one) { return one.numel() >= needed; });
  if (found != unused.end()) {
    auto buffer = std::move(*found);
    unused.erase(found);
    return buffer;
  }
  if (!unused.empty()) {
    bytes -= unused.back().numel();
    unused.pop_back();
  }
  bytes += needed;
  return ops::host_zeros(needed, at::kByte, /*pinned=*/true, device);
}

std::function<at::Tensor()> HostCopies::State::keep(const at::Tensor& x) {
  const auto device = x.device();
  while (leaving.size() >= most_leaving) {
    // Its copy has had the time of another part of the forward. What is queued from now on may use its memory.
    if (const auto oldest = leaving.front().lock(); oldest && oldest->waits) {
      wait_for(*oldest);
      oldest->on_device.reset();
    }
    leaving.pop_front();
  }
  auto copy =
      std::make_shared<Copy>(shared_from_this(), (x.is_non_overlapping_and_dense() ? x : x.contiguous()).detach());
  if (!device.is_meta()) copy->buffer = buffer_for(copy->bytes, device);
  begin(*copy, true);
  copy->before = std::exchange(last, copy);
  leaving.push_back(copy);
  return [copy = std::move(copy)] { return copy->state->take(*copy); };
}

void HostCopies::State::bring_back(Copy& copy) {
  copy.on_device = at::empty_strided(copy.sizes, copy.strides, copy.options);
  begin(copy, false);
}

// On the meta device there is no host memory, and a dry run only counts.
void HostCopies::State::begin(Copy& copy, bool leaves) {
  ops::tell_host_copy(&copy, copy.bytes);
  if (!copy.buffer.defined()) return;
  const auto on_host = copy.on_host();
  copy.done = copier.copy(leaves ? on_host : copy.on_device, leaves ? copy.on_device : on_host, copy.options.device());
  copied += copy.bytes;
}

// Work that is queued from now on comes after the copy that was begun last.
void HostCopies::State::wait_for(const Copy& copy) {
  ops::tell_host_wait(&copy);
  if (copy.done) copy.done->block(current(copy.options.device()));
}

at::Tensor HostCopies::State::take(Copy& copy) {
  if (!copy.on_device.defined()) bring_back(copy);
  // Also where it has not left yet: it must not be freed while it is copied.
  wait_for(copy);
  copy.waits = false;
  // The next copy into this memory is queued after the one out of it.
  if (copy.buffer.defined()) unused.push_back(std::move(copy.buffer));
  if (const auto next = copy.before.lock(); next && next->waits && !next->on_device.defined()) bring_back(*next);
  return std::move(copy.on_device);
}

HostCopies::HostCopies() : state_(std::make_shared<State>()) {}

strategy::KeepInput HostCopies::keep() const {
  return [state = state_](const at::Tensor& x) { return state->keep(x); };
}

std::int64_t HostCopies::host_bytes() const { return state_->bytes; }
std::int64_t HostCopies::copied_bytes() const { return state_->copied; }

}  // namespace recompute
