#include <capstan/monitor/monitor.h>
#include <capstan/monitor/planned.h>
#include <capstan/monitor/tracer.h>

namespace capstan::monitor {

Monitor::~Monitor() = default;
PlannedRunCheck::~PlannedRunCheck() = default;
Tracer::~Tracer() = default;

}  // namespace capstan::monitor
