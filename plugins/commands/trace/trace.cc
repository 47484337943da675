#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>

#include <algorithm>
#include <filesystem>

#include "trace_report.h"

namespace trace {
namespace {

using namespace capstan;

// Those of a run, or the file itself.
std::vector<std::filesystem::path> trace_files(const std::string& path) {
  if (is_file(path)) return {path};
  if (!is_folder(path)) throw Error("there is no such run or trace", "name a run's folder or a trace of it", path);
  const auto folder = std::filesystem::path(path) / "traces";
  std::vector<std::filesystem::path> found;
  if (is_folder(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) found.push_back(entry.path());
  }
  if (found.empty()) throw Error("this run has no trace", "add [monitor.trace] to its configuration", path);
  std::sort(found.begin(), found.end());
  return found;
}

/// capstan trace RUN|FILE…
int run(const command::Call& call) {
  command::Arguments arguments;
  std::vector<std::string> paths;
  arguments.values("traces", paths, "folders of runs, or traces").required();
  if (const auto code = arguments.read(call)) return *code;
  for (const auto& path : paths) {
    for (const auto& file : trace_files(path))
      terminal::print(cat(file.string(), ": ", trace_text(read_trace(read_file(file), file.string())), "\n"));
  }
  return static_cast<int>(ExitCode::success);
}

}  // namespace

CAPSTAN_COMMAND("trace", "0.1.0", "where the time of traced steps went: by kind, by unit, by kernel", run)

}  // namespace trace
