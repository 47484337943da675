#pragma once
#include <capstan/command.h>

#include <cstdint>
#include <string>

namespace my_plugin {

/// How many steps a run's metrics.jsonl tells of.
std::int64_t steps_in(const std::string& metrics);

/// An example to replace: capstan my_plugin RUN… prints how many steps each run has made.
class MyPlugin final : public capstan::command::Command {
 public:
  int run(const capstan::command::Call& call) override;
};

}  // namespace my_plugin
