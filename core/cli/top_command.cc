#include "cli/top_command.h"

#include <capstan/base/exit_code.h>
#include <capstan/base/terminal.h>

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

#include "record/run_lock.h"
#include "report/snapshot.h"

namespace capstan::cli {
namespace {

std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

report::Writer writer_of(const std::string& folder) {
  using Seen = record::HolderSeen::State;
  using State = report::Writer::State;
  const auto seen = record::holder_seen(folder);
  const auto state = seen.state == Seen::lives ? State::lives : seen.state == Seen::gone ? State::gone : State::none;
  return {state, seen.name};
}

}  // namespace

int top_command(const std::string& folder, double every_s, bool terminal) {
  report::RunWatch watch(folder);
  for (;;) {
    // The summary is looked for after the writer: one that ends meanwhile has written it.
    const auto writer = writer_of(folder);
    const auto& run = watch.now();
    const auto text = report::snapshot_text(run, terminal_columns(), writer);
    terminal ? terminal::print_screen(text) : terminal::print(text);
    std::fflush(stdout);
    if (!terminal || report::is_over(run, writer)) return static_cast<int>(ExitCode::success);
    std::this_thread::sleep_for(std::chrono::duration<double>(every_s));
  }
}

void add_top_command(CLI::App& app, Chosen& chosen) {
  struct Given {
    std::string run;
    double every_s = 2;
  };
  auto* command = app.add_subcommand(
      "top",
      "where a run stands: step, loss curve, throughput, slowest rank, GPUs; live on a terminal, else one snapshot");
  const auto given = std::make_shared<Given>();
  command->add_option("run", given->run, "the run's folder")->required();
  command->add_option("--every", given->every_s, "seconds between two looks (default 2)")
      ->check(CLI::Range(0.1, 3600.0));
  choose_with(*command, chosen, [given](const Process&) {
    return top_command(given->run, given->every_s, ::isatty(STDOUT_FILENO) == 1);
  });
}

}  // namespace capstan::cli
