#include <capstan/base/exit_code.h>
#include <capstan/base/terminal.h>
#include <capstan/command.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "arguments/arguments.h"
#include "snapshot.h"

namespace top {
namespace {

using namespace capstan;

std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Where the run stands; on a terminal again every `every_s` seconds until nobody writes to its folder.
void show(const std::string& folder, double every_s) {
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  RunWatch watch(folder);
  for (;;) {
    // The summary is looked for after the writer: one that ends meanwhile has written it.
    const auto writer = record::holder_seen(folder);
    const auto text = snapshot_text(watch.now(), terminal_columns(), writer);
    terminal ? terminal::print_screen(text) : terminal::print(text);
    std::fflush(stdout);
    if (!terminal || writer.state != record::HolderSeen::State::lives) return;
    std::this_thread::sleep_for(std::chrono::duration<double>(every_s));
  }
}

/// capstan top RUN
class Top : public command::Command {
 public:
  int run(const command::Call& call) override {
    CLI::App app;
    std::string folder;
    double every_s = 2;
    app.add_option("run", folder, "the run's folder")->required();
    app.add_option("--every", every_s, "seconds between two looks (default 2)")->check(CLI::Range(0.1, 3600.0));
    if (const auto code = arguments::read(app, call)) return *code;
    show(folder, every_s);
    return static_cast<int>(ExitCode::success);
  }
};

}  // namespace

CAPSTAN_COMMAND(
    "top", "0.1.0",
    "where a run stands: step, loss curve, throughput, slowest rank, GPUs; live on a terminal, else one snapshot", Top)

}  // namespace top
