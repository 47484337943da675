#include "base/phase_clock.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>

namespace capstan {
namespace {

// How long this process has been there: its beginning is field 22 of proc(5)'s stat, in ticks since the system's.
double process_age_s() {
  std::ifstream in("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto name_end = text.rfind(')');  // the name before may hold anything
  timespec now{};
  if (name_end == std::string::npos || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 3; i < 22; ++i) fields >> skipped;
  double ticks = 0;
  if (!(fields >> ticks)) return 0;
  const double since_boot = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  return std::max(0.0, since_boot - ticks / static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

}  // namespace

PhaseClock::PhaseClock()
    : last_(std::chrono::steady_clock::now() - std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                   std::chrono::duration<double>(process_age_s()))) {}

void PhaseClock::end(const std::string& phase) {
  const auto now = std::chrono::steady_clock::now();
  const double passed = std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  const auto found =
      std::find_if(seconds_.begin(), seconds_.end(), [&](const auto& known) { return known.first == phase; });
  if (found == seconds_.end()) {
    seconds_.emplace_back(phase, passed);
  } else {
    found->second += passed;
  }
}

}  // namespace capstan
