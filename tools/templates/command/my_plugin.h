#pragma once
#include <capstan/command.h>

#include <cstdint>
#include <string>

namespace my_plugin_plugin {

/// How many steps a run's metrics.jsonl tells of.
std::int64_t steps_in(const std::string& metrics);

/// An example to replace: capstan my_plugin RUN… prints how many steps each run has made.
int count_steps(const capstan::command::Call& call);

}  // namespace my_plugin_plugin
