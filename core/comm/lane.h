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

/// A point in a stream's work. On CPU nothing runs behind the host's back, and all of this does nothing.
class Mark {
 public:
  /// Here, in the stream that is current on `device`.
  void record(c10::Device device);
  /// What is queued on the current stream from now on starts after the point.
  void wait(c10::Device device) const;
  /// The host waits.
  void synchronize() const;
  bool is_set() const { return event_ != nullptr; }
  /// The stream has come there, as far as the host can see.
  bool is_reached() const;

 private:
  std::shared_ptr<c10::Event> event_;
};

/// A stream for one kind of work beside compute. Without overlap, and on CPU, it is whatever stream is current.
class Lane {
 public:
  Lane(c10::Device device, bool beside, bool high_priority = true);

  /// Makes the lane's stream current as long as it lives. The lane first waits for what the stream that was current
  /// had queued, unless told not to.
  class Use {
   public:
    explicit Use(const Lane& lane, bool wait_for_current = true);

   private:
    c10::OptionalStreamGuard guard_;
  };

  c10::Device device() const { return device_; }
  bool beside() const { return stream_ != nullptr; }

 private:
  c10::Device device_;
  std::unique_ptr<c10::Stream> stream_;
};

}  // namespace comm
CAPSTAN_END_NAMESPACE
