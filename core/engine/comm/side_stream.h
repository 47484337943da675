#pragma once
#include <capstan/base/export.h>

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <memory>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// A CUDA event: a point in a stream's work. On CPU, where all calls are synchronous, it does nothing.
class Event {
 public:
  /// Records it in the stream that is current on `device`.
  void record(c10::Device device);
  /// Work queued on the current stream from now on starts after the event.
  void wait(c10::Device device) const;
  /// The host waits.
  void synchronize() const;
  /// Has the stream passed it? Does not wait.
  bool is_reached() const;

 private:
  std::shared_ptr<c10::Event> event_;
};

/// A stream for one kind of work that overlaps with compute. Without overlap, and on CPU, it is the current stream.
class SideStream {
 public:
  SideStream(c10::Device device, bool overlaps);

  /// Makes the side stream current for its lifetime. The side stream first waits for the work queued on the stream that
  /// was current, unless told not to.
  class Use {
   public:
    explicit Use(const SideStream& side, bool wait_for_current = true);

   private:
    c10::OptionalStreamGuard guard_;
  };

  bool overlaps() const { return stream_ != nullptr; }

 private:
  c10::Device device_;
  std::unique_ptr<c10::Stream> stream_;
};

}  // namespace comm
CAPSTAN_END_NAMESPACE
