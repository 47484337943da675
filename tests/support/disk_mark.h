#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "base/disk_wait.h"

namespace test {

/// Would a heartbeat say `mark` ("reading /x/a") while `work` runs? Done again until one is seen, for at most 10 s.
inline bool is_marked(const std::string& mark, const std::function<void()>& work) {
  std::atomic<bool> seen{false}, over{false};
  std::thread watcher([&] {
    while (!over && !seen) seen = capstan::DiskWait::oldest() == mark;
  });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!seen && std::chrono::steady_clock::now() < until) work();
  over = true;
  watcher.join();
  return seen;
}

}  // namespace test
