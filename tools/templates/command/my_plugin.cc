#include "my_plugin.h"

#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <filesystem>
#include <vector>

namespace my_plugin_plugin {

std::int64_t steps_in(const std::string& metrics) {
  const auto lines = capstan::split(metrics, '\n');
  return std::count_if(lines.begin(), lines.end(),
                       [](const auto& line) { return line.find("\"grad_norm\"") != std::string::npos; });
}

int count_steps(const capstan::command::Call& call) {
  capstan::command::Arguments arguments;
  std::vector<std::string> runs;
  arguments.values("runs", runs, "folders of runs").required();
  if (const auto code = arguments.read(call)) return *code;
  for (const auto& folder : runs) {
    const auto steps = steps_in(capstan::read_file(std::filesystem::path(folder) / "metrics.jsonl"));
    capstan::terminal::print(capstan::cat(folder, ": ", steps, " steps\n"));
  }
  return static_cast<int>(capstan::ExitCode::success);
}

}  // namespace my_plugin_plugin

CAPSTAN_COMMAND("my_plugin", "0.1.0", "how many steps runs have made", my_plugin_plugin::count_steps)
