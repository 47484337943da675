#include "base/disk_wait.h"

#include <capstan/base/text.h>

#include <mutex>
#include <vector>

namespace capstan {
namespace {

// Those of all threads, oldest first. Never destroyed: threads may write until the process ends.
struct DiskWaits {
  std::mutex mutex;
  std::vector<const DiskWait*> all;
};

DiskWaits& disk_waits() {
  static auto* const waits = new DiskWaits;
  return *waits;
}

}  // namespace

DiskWait::DiskWait(const char* verb, const std::filesystem::path& path) : verb_(verb), path_(path) {
  auto& [mutex, all] = disk_waits();
  const std::scoped_lock lock(mutex);
  all.push_back(this);
}

DiskWait::~DiskWait() {
  auto& [mutex, all] = disk_waits();
  const std::scoped_lock lock(mutex);
  std::erase(all, this);
}

std::optional<std::string> DiskWait::oldest() {
  auto& [mutex, all] = disk_waits();
  const std::scoped_lock lock(mutex);
  if (all.empty()) return {};
  return cat(all.front()->verb_, " ", all.front()->path_.string());
}

}  // namespace capstan
