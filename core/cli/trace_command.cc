#include "cli/trace_command.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "launch/terminal.h"
#include "record/trace_report.h"

namespace capstan::cli {
namespace {

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

}  // namespace

void add_trace_command(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand("trace", "where the time of traced steps went: by kind, by unit, by kernel");
  const auto paths = std::make_shared<std::vector<std::string>>();
  command->add_option("traces", *paths, "folders of runs, or traces")->required();
  choose_with(*command, chosen, [paths](const Process&) {
    for (const auto& path : *paths) {
      for (const auto& file : trace_files(path)) {
        launch::print(
            cat(file.string(), ": ", record::trace_text(record::read_trace(read_file(file), file.string())), "\n"));
      }
    }
    return static_cast<int>(ExitCode::success);
  });
}

}  // namespace capstan::cli
