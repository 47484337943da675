#include "base/disk_wait.h"

#include <capstan/base/text.h>

#include <mutex>
#include <utility>

namespace capstan {
namespace {

// Those of all threads, oldest first. Never destroyed: threads may write until the process ends.
struct DiskWaits {
  std::mutex mutex;
  DiskWait* oldest = nullptr;
  DiskWait* newest = nullptr;
};

DiskWaits& disk_waits() {
  static auto* const all = new DiskWaits;
  return *all;
}

}  // namespace

DiskWait::DiskWait(const char* verb, const std::filesystem::path& path) : verb_(verb), path_(path) {
  auto& all = disk_waits();
  const std::scoped_lock lock(all.mutex);
  older_ = std::exchange(all.newest, this);
  (older_ ? older_->newer_ : all.oldest) = this;
}

DiskWait::~DiskWait() {
  auto& all = disk_waits();
  const std::scoped_lock lock(all.mutex);
  (newer_ ? newer_->older_ : all.newest) = older_;
  (older_ ? older_->newer_ : all.oldest) = newer_;
}

std::optional<std::string> DiskWait::oldest() {
  auto& all = disk_waits();
  const std::scoped_lock lock(all.mutex);
  if (!all.oldest) return {};
  return cat(all.oldest->verb_, " ", all.oldest->path_.string());
}

}  // namespace capstan
