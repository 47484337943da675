#pragma once
#include <capstan/base/export.h>

#include <string_view>

CAPSTAN_BEGIN_NAMESPACE
namespace monitor {

/// What a stretch of a rank's work is for.
enum class Span { step, forward, backward, optimizer, collective, evaluation };

/// Is told where a rank's work begins and ends: steps ("12"), units' forward and backward ("blocks.3"), the optimizer's
/// update, collectives ("all-gather 'fsdp blocks.3'"), evaluations. Calls come from the thread that does the work,
/// while it does: on a GPU work is queued between them, and done later. Spans of one thread nest, but for a unit's
/// backward, which may end on another thread than it began on. A collective that is started and waited for later is two
/// spans. Must not throw, and must be quick: it is called some hundred times a step.
class Tracer {
 public:
  virtual ~Tracer();
  virtual void begin(Span kind, std::string_view name) noexcept = 0;
  virtual void end(Span kind, std::string_view name) noexcept = 0;
  /// Are units' forward and backward to be told of too? A micro-step that is replayed as a CUDA graph enters no unit,
  /// so that where one tracer wants them, none is.
  virtual bool units() const { return true; }
};

}  // namespace monitor
CAPSTAN_END_NAMESPACE
