#include "cli/sweep_command.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/config/run_name.h>
#include <capstan/monitor/output_file.h>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>

#include "cli/child.h"
#include "report/sweep.h"

namespace capstan::cli {

namespace fs = std::filesystem;

namespace {

// A folder of this process that goes with the object.
class Scratch {
 public:
  Scratch() : path_(fs::temp_directory_path() / cat("capstan-sweep-", ::getpid())) { fs::create_directories(path_); }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// What the configuration means on so many ranks: as `check` resolves it, before anything runs.
report::Run resolved(const std::string& config, const report::PlannedRun& planned, const fs::path& folder) {
  fs::create_directories(folder);
  std::vector<std::string> command{own_program(),
                                   "check",
                                   config,
                                   "--ranks",
                                   std::to_string(planned.ranks()),
                                   "--nodes",
                                   std::to_string(planned.nodes),
                                   "--resolved",
                                   (folder / "config.toml").string()};
  command.insert(command.end(), planned.overrides.begin(), planned.overrides.end());
  const auto checked = run_program(command, true);
  if (checked.code != 0) {
    auto said = checked.said;
    if (const auto fault = said.find("capstan: error\n"); fault != std::string::npos) said.erase(0, fault + 15);
    throw Error(cat(trim(said), "\n    while checking the run ", planned.name));
  }
  return report::read_run(folder);
}

// One of the runs and where it is.
struct Placed {
  report::PlannedRun planned;
  fs::path folder;
  bool done = false;
};

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// The folder of a finished run of this configuration, else the first name that is free.
Placed place(const report::PlannedRun& planned, const report::Run& wanted) {
  Placed placed{planned, {}, false};
  const fs::path dir = wanted.option_text("run.dir");
  for (const auto& entry : entries_if_there(dir)) {
    const auto name = entry.filename().string();
    const auto rest = name.starts_with(planned.name) ? name.substr(planned.name.size()) : "?";
    if (!rest.empty() && (rest[0] != '-' || !is_number(rest.substr(1)))) continue;
    if (!is_file(entry / "config.toml")) continue;
    if (report::is_done(report::read_run(entry), wanted, planned)) {
      placed.folder = entry;
      placed.done = true;
      return placed;
    }
  }
  for (int n = 2; is_there(dir / placed.planned.name); ++n) placed.planned.name = cat(planned.name, "-", n);
  placed.folder = dir / placed.planned.name;
  return placed;
}

report::Sweep sweep_of(const SweepArguments& arguments) {
  report::Sweep sweep;
  sweep.name = config::name_of_run(arguments.config);
  sweep.ranks = report::counts_of(arguments.ranks, "--gpus");
  sweep.nodes = report::counts_of(arguments.nodes, "--nodes");
  if (arguments.weak == "layers") sweep.weak = report::Weak::layers;
  if (arguments.weak == "samples") sweep.weak = report::Weak::samples;
  for (const auto& text : arguments.overrides) {
    if (text.starts_with("run.name=")) {
      sweep.name = text.substr(9);
    } else if (auto axis = report::axis_of(text)) {
      sweep.axes.push_back(std::move(*axis));
    } else {
      sweep.overrides.push_back(text);
    }
  }
  if (!arguments.submit && sweep.nodes.back() > 1)
    throw Error(cat("--nodes ", arguments.nodes, ": runs on several nodes are submitted"), "add --submit");
  return sweep;
}

std::vector<Placed> plan(const std::string& config, const report::Sweep& sweep) {
  const Scratch scratch;
  report::PlannedRun smallest{sweep.name, sweep.nodes.front(), sweep.ranks.front(), sweep.overrides};
  for (const auto& axis : sweep.axes) smallest.overrides.push_back(cat(axis.option, "=", axis.values.front()));
  const auto base = resolved(config, smallest, scratch.path() / "base");
  std::vector<Placed> placed;
  for (const auto& planned : report::planned_runs(sweep, base))
    placed.push_back(place(planned, resolved(config, planned, scratch.path() / planned.name)));
  return placed;
}

std::vector<std::string> with_overrides(std::vector<std::string> command, const Placed& run) {
  command.insert(command.end(), run.planned.overrides.begin(), run.planned.overrides.end());
  command.push_back(cat("run.name=\"", run.planned.name, "\""));
  return command;
}

// Runs what is not done. Returns whether all ended well.
bool run_all(const std::string& config, std::vector<Placed>& runs) {
  bool well = true;
  for (auto& run : runs) {
    if (run.done) continue;
    terminal::print(cat("sweep: ", run.planned.name, ", ", run.planned.ranks(), " ranks\n"));
    std::fflush(stdout);
    const auto ended = run_program(
        with_overrides({own_program(), "run", config, "-n", std::to_string(run.planned.ranks())}, run), false);
    run.done = ended.code == 0;
    if (run.done) continue;
    terminal::print_error(
        cat("sweep: ", run.planned.name, " ended with exit code ", ended.code, "; it is left out of the report\n"));
    well = false;
  }
  return well;
}

// What to report; without --table the table of that kind of scaling.
ReportArguments report_of(const SweepArguments& arguments) {
  auto given = arguments.report;
  if (!given.tables.empty()) return given;
  if (arguments.weak == "layers") given.tables = {"weak-layers"};
  if (arguments.weak == "samples") given.tables = {arguments.nodes == "1" ? "zero-scaling" : "zero-nodes"};
  return given;
}

std::vector<std::string> report_line(const SweepArguments& arguments, const std::vector<Placed>& runs) {
  std::vector<std::string> line{own_program(), "report", "--leave-out"};
  for (const auto& run : runs) line.push_back(run.folder.string());
  for (const auto& table : report_of(arguments).tables) line.insert(line.end(), {"--table", table});
  if (!arguments.report.base.empty()) line.insert(line.end(), {"--base", arguments.report.base});
  if (arguments.report.format != "text") line.insert(line.end(), {"--format", arguments.report.format});
  if (!arguments.report.output.empty()) line.insert(line.end(), {"-o", fs::absolute(arguments.report.output).string()});
  return line;
}

// "Submitted batch job 4711" -> "4711".
std::string job_number(const std::string& said) {
  const std::string words = "Submitted batch job ";
  const auto at = said.rfind(words);
  if (at == std::string::npos) throw Error("sbatch did not say which job it made:\n" + said);
  const auto begin = at + words.size();
  return said.substr(begin, said.find_first_not_of("0123456789", begin) - begin);
}

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Submits what is not done, and a job after all of them that prints the report.
void submit_all(const SweepArguments& arguments, const std::string& name, const std::vector<Placed>& runs) {
  std::string jobs;
  for (const auto& run : runs) {
    if (run.done) continue;
    std::vector<std::string> command{arguments.submitter, cat("--nodes=", run.planned.nodes),
                                     cat("--gpus-per-node=", run.planned.ranks_per_node),
                                     cat("--job-name=", run.planned.name)};
    command.insert(command.end(), arguments.sbatch.begin(), arguments.sbatch.end());
    command.push_back(fs::absolute(arguments.config).string());
    const auto ended = run_program(with_overrides(std::move(command), run), true);
    terminal::print(ended.said);
    if (ended.code != 0) throw Error(cat(arguments.submitter, " ended with exit code ", ended.code));
    jobs += ":" + job_number(ended.said);
  }
  std::vector<std::string> words;
  for (const auto& word : report_line(arguments, runs)) words.push_back(quoted(word));
  const auto ended = run_program({"sbatch", "--dependency=afterany" + jobs, cat("--job-name=", name, "-report"),
                                  "--output=%x-%j.out", "--ntasks=1", "--wrap=" + join(words, " ")},
                                 true);
  if (ended.code != 0) throw Error("sbatch refuses the report's job: " + trim(ended.said));
  terminal::print(cat("the report comes when all have ended: ", name, "-report-", job_number(ended.said), ".out\n"));
}

}  // namespace

int sweep_command(const SweepArguments& arguments) {
  monitor::check_output(arguments.report.output);
  const auto sweep = sweep_of(arguments);
  auto runs = plan(arguments.config, sweep);
  bool all_done = true;
  for (const auto& run : runs) {
    if (run.done) terminal::print(cat("sweep: ", run.planned.name, " is there: ", run.folder.string(), "\n"));
    all_done = all_done && run.done;
  }
  if (arguments.submit && !all_done) {
    submit_all(arguments, sweep.name, runs);
    return static_cast<int>(ExitCode::success);
  }
  const bool well = run_all(arguments.config, runs);
  auto given = report_of(arguments);
  for (const auto& run : runs) {
    if (run.done) given.runs.push_back(run.folder.string());
  }
  if (given.runs.empty()) return static_cast<int>(ExitCode::failure);
  report_command(given);
  return static_cast<int>(well ? ExitCode::success : ExitCode::failure);
}

void add_sweep_command(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand(
      "sweep", "run one configuration on several numbers of GPUs and with several values, and report on all of it");
  const auto given = std::make_shared<SweepArguments>();
  command->add_option("config", given->config, "configuration file (TOML)")->required();
  command->add_option("overrides", given->overrides,
                      "options that win over the file; train.micro_batch=1,2,4 makes a run of each value");
  command->add_option("--gpus,--ranks,-n", given->ranks, "GPUs of a node, or ranks on CPUs: 1,2,4 (default 1)");
  command->add_option("--nodes", given->nodes, "nodes: 1,2,4 (default 1); more than one needs --submit");
  command
      ->add_option("--weak", given->weak,
                   "layers: model.num_layers grows with the ranks and train.micro_batch shrinks; samples: "
                   "data.train_samples grows; both from the smallest run's")
      ->check(CLI::IsMember({"layers", "samples"}));
  command->add_flag("--submit", given->submit, "as SLURM jobs, and the report as a job after them");
  command->add_option("--submitter", given->submitter, "what submits a run (default slurm/submit)");
  command->add_option("--sbatch", given->sbatch, "an option for sbatch, such as --sbatch=--time=01:00:00")
      ->allow_extra_args(false);
  add_table_option(*command, given->report.tables, "as of capstan report");
  command->add_option("--base", given->report.base, "as of capstan report: one of the sweep's runs");
  command->add_option("--format", given->report.format, "as of capstan report")
      ->check(CLI::IsMember({"text", "csv", "markdown", "html"}));
  command->add_option("-o,--output", given->report.output, "as of capstan report");
  choose_with(*command, chosen, [given](const Process&) { return sweep_command(*given); });
}

}  // namespace capstan::cli
