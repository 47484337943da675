#include <capstan/monitor/monitor.h>

namespace capstan::monitor {

Monitor::~Monitor() = default;

}  // namespace capstan::monitor
