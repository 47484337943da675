#include <capstan/base/counted.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/printable.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <thread>

#include "runs/numbers.h"
#include "snapshot.h"

namespace top {

using namespace capstan;
using namespace runs;
using State = record::HolderSeen::State;

namespace {

constexpr std::size_t window = 20;  ///< steps that "now" is the mean of

struct Recent {
  double loss = 0;
  double samples_per_second = 0;
  double step_time_s = 0;
  std::size_t steps = 0;
};

Recent recent_of(const Run& run) {
  Recent recent;
  double samples = 0;
  double seconds = 0;
  double losses = 0;
  for (auto i = run.steps.size() - std::min(window, run.steps.size()); i < run.steps.size(); ++i) {
    const auto& step = run.steps[i];
    samples += static_cast<double>(step.samples);
    seconds += step.step_time_s;
    recent.loss += step.loss.value_or(0);
    losses += step.loss ? 1 : 0;
    ++recent.steps;
  }
  if (losses > 0) recent.loss /= losses;
  if (seconds > 0) recent.samples_per_second = samples / seconds;
  if (recent.steps > 0) recent.step_time_s = seconds / static_cast<double>(recent.steps);
  return recent;
}

// Steps of the whole run, where that is known: a step's line says it, or max_steps, or the summary.
std::optional<double> all_steps(const Run& run) {
  if (!run.steps.empty() && run.steps.back().steps > 0) return static_cast<double>(run.steps.back().steps);
  const auto all = run.has_summary ? run.number("steps") : run.option("train.max_steps");
  return all && *all >= 1 ? all : std::nullopt;
}

// Why it does not continue; empty: it does.
std::string state_text(const Run& run, const record::HolderSeen& writer) {
  if (writer.state == State::lives) return {};
  if (run.has_summary) return "ended";
  if (writer.state == State::gone) return cat("killed: ", printable(writer.name), " is gone");
  return "ended before its last step: logs/rank-0.log may say why";
}

std::string progress_text(const Run& run, const Recent& recent, const record::HolderSeen& writer) {
  const auto done = static_cast<double>(run.steps.back().step + 1);
  const auto all = all_steps(run);
  auto text = cat("step ", fixed(done, 0));
  if (all) text += cat("/", fixed(*all, 0), " (", fixed(100 * done / *all, 0), " %)");
  const auto epoch = run.steps.back().values.find("epoch");
  if (epoch != run.steps.back().values.end()) text += cat(", epoch ", fixed(epoch->second, 0));
  if (const auto state = state_text(run, writer); !state.empty()) return cat(text, ", ", state);
  if (all && done < *all) text += cat(", ", duration_text((*all - done) * recent.step_time_s), " left");
  return text;
}

std::string loss_text(const Run& run, const Recent& recent, std::size_t columns) {
  std::vector<double> losses;
  for (const auto& step : run.steps) losses.push_back(step.loss.value_or(std::nan("")));
  const auto last = run.steps.back().loss;
  return cat("loss ", last ? fixed(*last, 4) : "not finite", ", mean of the last ", recent.steps, " ",
             fixed(recent.loss, 4), "\n  ", sparkline(losses, columns > 4 ? columns - 4 : 1), "\n");
}

// The rank for which the others have waited longest in the last steps in which that was measured.
std::string slowest_text(const Run& run, double step_time_s) {
  std::map<int, double> waits;  // by rank
  std::map<int, int> times;
  int measured = 0;
  for (auto step = run.steps.rbegin(); step != run.steps.rend() && measured < static_cast<int>(window); ++step) {
    const auto rank = step->values.find("slowest_rank");
    const auto wait = step->values.find("slowest_rank_wait_s");
    if (rank == step->values.end() || wait == step->values.end()) continue;
    if (rank->second < 0 || rank->second >= run.ranks || !(wait->second >= 0)) continue;  // the line is damaged
    waits[static_cast<int>(rank->second)] += wait->second;
    ++times[static_cast<int>(rank->second)];
    ++measured;
  }
  if (measured == 0) return {};
  const auto most =
      std::max_element(waits.begin(), waits.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto [rank, seconds] = *most;
  const double wait = seconds / measured;
  const auto at = static_cast<std::size_t>(rank);
  return cat("slowest rank ", rank, at < run.hosts.size() ? cat(" on ", printable(run.hosts[at])) : "",
             ": the others wait ", fixed(1000 * wait, 1), " ms a step for it",
             step_time_s > 0 ? cat(" (", fixed(100 * wait / step_time_s, 1), " %)") : "", "; it was the slowest in ",
             times[rank], " of the last ", counted(measured, "step"), "\n");
}

std::string gpus_text(const Run& run) {
  std::vector<std::vector<std::string>> rows{{"GPU", "log", "memory now", "peak", "utilisation"}};
  for (const auto& log : run.gpu_logs) {
    for (const auto& [index, samples] : log.gpus) {
      double peak = 0;
      for (const auto& sample : samples) peak = std::max(peak, sample.used_mib);
      const auto& last = samples.back();
      rows.push_back({std::to_string(index), log.name, cat(fixed(last.used_mib, 0), " MiB"),
                      cat(fixed(peak, 0), " MiB"), last.utilisation ? cat(fixed(*last.utilisation, 0), " %") : "-"});
    }
  }
  if (rows.size() > 1) return table_text(rows);
  if (run.option_text("run.device") != "cuda") return {};  // it may have none
  return "GPU memory is not logged: add [monitor.memory_log] to the configuration\n";
}

std::size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Prints where the run stands; on a terminal again every `every_s` seconds until no process writes to its folder.
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
int run(const command::Call& call) {
  command::Arguments arguments;
  std::string folder;
  double every_s = 2;
  arguments.value("run", folder, "the run's folder").required();
  arguments.value("--every", every_s, "seconds between two looks (default 2)").real_range(0.1, 3600);
  if (const auto code = arguments.read(call)) return *code;
  show(folder, every_s);
  return static_cast<int>(ExitCode::success);
}

}  // namespace

RunWatch::RunWatch(const std::filesystem::path& folder) : run_(read_run_but_metrics(folder)) {}

const Run& RunWatch::now() {
  auto next = read_run_but_metrics(run_.folder);
  next.steps = std::move(run_.steps);
  next.evaluations = std::move(run_.evaluations);
  run_ = std::move(next);
  read_ = read_more_metrics(run_.folder / "metrics.jsonl", read_, run_);
  return run_;
}

std::string sparkline(const std::vector<double>& values, std::size_t columns) {
  constexpr std::array blocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<Point> points;
  for (const double value : values) points.emplace_back(static_cast<double>(points.size()), value);
  points = thinned(points, columns);
  if (points.empty()) return {};
  double low = points.front().second;
  double high = low;
  for (const auto& [x, y] : points) {
    low = std::min(low, y);
    high = std::max(high, y);
  }
  std::string out;
  for (const auto& [x, y] : points) {
    const double share = high > low ? (y - low) / (high - low) : 0;
    out += blocks[static_cast<std::size_t>(std::lround(share * static_cast<double>(blocks.size() - 1)))];
  }
  return out;
}

std::string snapshot_text(const Run& run, std::size_t columns, const record::HolderSeen& writer) {
  auto out =
      cat("run ", printable(run.name), ": ", counted(run.ranks, "rank"), " on ", counted(run.nodes, "node"), "\n");
  if (run.steps.empty()) {
    const auto state = state_text(run, writer);
    return cat(out, "no step is done", state.empty() ? " yet" : ", ", state, "\n", gpus_text(run));
  }
  const auto recent = recent_of(run);
  out += progress_text(run, recent, writer) + "\n" + loss_text(run, recent, columns);
  out += cat("samples/s ", fixed(recent.samples_per_second, 3), " (", fixed(recent.samples_per_second / run.ranks, 3),
             " a rank), ", fixed(recent.step_time_s, 3), " s a step, mean of the last ", recent.steps, "\n");
  out += slowest_text(run, recent.step_time_s);
  if (!run.evaluations.empty() && run.evaluations.back().loss) {
    out += cat("evaluation after step ", run.evaluations.back().step, ": loss ", fixed(*run.evaluations.back().loss, 4),
               "\n");
  }
  return out + gpus_text(run);
}

CAPSTAN_COMMAND(
    "top", "0.1.0",
    "where a run stands: step, loss curve, throughput, slowest rank, GPUs; live on a terminal, else one snapshot", run)

}  // namespace top
