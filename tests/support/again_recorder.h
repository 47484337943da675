#pragma once
// A recorder of device graphs that runs the work again in place of replaying it: it stands in for a GPU's, which
// tests/gpu has. What is to stay apart follows after all of the rest, as if the host were slow.
#include <capstan/base/error.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ops/device_graph.h"

namespace test {

class Again final : public capstan::ops::DeviceGraph {
 public:
  using Work = std::function<void(const capstan::ops::GraphRecorder::Apart&)>;
  Again(Work work, int& replays) : work_(std::move(work)), replays_(replays) {}
  void replay() override {
    ++replays_;
    std::vector<std::function<void()>> later;
    work_([&](std::function<void()> apart) { later.push_back(std::move(apart)); });
    if (apart_.value_or(later.size()) != later.size()) throw std::logic_error("a graph is not what was recorded");
    apart_ = later.size();
    for (const auto& one : later) one();
  }

 private:
  Work work_;
  std::optional<std::size_t> apart_;
  int& replays_;
};

/// It counts what it does. With `on_failure` each recording calls that and fails.
class AgainRecorder final : public capstan::ops::GraphRecorder {
 public:
  Room make_room() override { return room; }
  std::unique_ptr<capstan::ops::DeviceGraph> record(const std::function<void(const Apart&)>& work) override {
    ++records;
    if (!on_failure) return std::make_unique<Again>(work, replays);
    on_failure();
    throw capstan::Error("a CUDA graph cannot be recorded: the host reads\na result", "none");
  }
  Room room{100, 10};
  std::function<void()> on_failure;
  int records = 0;
  int replays = 0;
};

}  // namespace test
