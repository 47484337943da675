#pragma once
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <memory>

namespace capstan::shard {

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

/// The engine's lanes. Work of one kind is in order, so that it can share buffers.
struct Lanes {
  Lanes(c10::Device device, bool overlap)
      : gather(device, overlap), reduce(device, overlap), replicate(device, overlap), transfer(device, overlap) {}
  Lane gather;     ///< all-gathers and what unpacks them
  Lane reduce;     ///< reduce-scatters and what packs for them
  Lane replicate;  ///< hybrid's all-reduce between copies
  Lane transfer;   ///< gradients to the host, updated parameters back
};

}  // namespace capstan::shard
