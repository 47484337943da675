#pragma once
// A recorder of device graphs that runs the work again in place of replaying it: it stands in for a GPU's, which
// tests/gpu has.
#include <capstan/base/error.h>

#include <functional>
#include <memory>
#include <utility>

#include "ops/device_graph.h"

namespace test {

class Again final : public capstan::ops::DeviceGraph {
 public:
  Again(std::function<void()> work, int& replays) : work_(std::move(work)), replays_(replays) {}
  void replay() override {
    ++replays_;
    work_();
  }

 private:
  std::function<void()> work_;
  int& replays_;
};

/// It counts what it does. With `on_failure` each recording calls that and fails.
class AgainRecorder final : public capstan::ops::GraphRecorder {
 public:
  Room make_room() override { return room; }
  std::unique_ptr<capstan::ops::DeviceGraph> record(const std::function<void()>& work) override {
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
