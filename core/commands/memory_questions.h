#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <capstan/plugin/host.h>
#include "setup/configuration.h"

CAPSTAN_BEGIN_NAMESPACE
namespace commands {

/// What a run's monitors may ask: what was predicted for this request, and what would save most. `host` outlives them.
/// On a CPU rank savings are what a GPU would save.
monitor::MemoryQuestions memory_questions(const setup::JobRequest& request, plugin::Host& host);

}  // namespace commands
CAPSTAN_END_NAMESPACE
