#include <capstan/monitor/resident.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>

namespace capstan::monitor {
namespace {

// The system keeps its own peak and what is resident now in counters that lag by some pages of each CPU, so that its
// peak may lie below a number that it has told before.
std::atomic<std::int64_t> most_resident{0};

std::int64_t noted(std::int64_t bytes) {
  auto most = most_resident.load();
  while (most < bytes && !most_resident.compare_exchange_weak(most, bytes)) {
  }
  return bytes;
}

// The peak of this program only: getrusage's is also that of the program which became this one.
std::int64_t high_water_bytes() {
  std::ifstream in("/proc/self/status");
  std::string word;
  std::int64_t kibibytes = 0;
  while (in >> word) {
    if (word == "VmHWM:") return in >> kibibytes ? kibibytes * 1024 : 0;
  }
  return 0;
}

}  // namespace

std::int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  return in >> all >> resident ? noted(resident * ::sysconf(_SC_PAGESIZE)) : 0;
}

std::int64_t peak_resident_bytes() {
  resident_bytes();
  noted(high_water_bytes());
  return most_resident;
}

}  // namespace capstan::monitor
