#pragma once
#include <c10/core/Device.h>
#include <capstan/base/export.h>

#include <memory>
#include <utility>

#include "comm/side_stream.h"
#include "peers/call_log.h"

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

/// What a stream had to do when it was recorded.
class StreamWork final : public peers::QueuedWork {
 public:
  void record(c10::Device device) { now_.record(device); }
  bool has_ended() const override { return now_.is_reached(); }

 private:
  Event now_;
};

/// What the current stream has to do now, in the place of what the call log has no more use for.
inline std::unique_ptr<peers::QueuedWork> queued_now(std::unique_ptr<peers::QueuedWork> used, c10::Device device) {
  auto work = used ? std::move(used) : std::make_unique<StreamWork>();
  dynamic_cast<StreamWork&>(*work).record(device);
  return work;
}

}  // namespace comm
CAPSTAN_END_NAMESPACE
