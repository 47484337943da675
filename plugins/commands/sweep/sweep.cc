#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/config/run_name.h>
#include <capstan/monitor/output_file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "child.h"
#include "planned_runs.h"

namespace sweep {
namespace {

using namespace capstan;
namespace fs = std::filesystem;

struct SweepChoice {
  std::string config;
  std::vector<std::string> overrides;  // a list of values, as in lr=1e-4,5e-5, is an axis
  std::string ranks = "1";
  std::string nodes = "1";
  std::string weak;
  bool submit = false;
  std::string submitter = "slurm/submit";
  std::vector<std::string> sbatch;  // options for it
  std::vector<std::string> tables;  // the report's arguments, from here on
  std::string base;
  std::string format = "text";
  std::string output;
};

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

// What the configuration means on the planned ranks: as `check` resolves it, before anything runs.
runs::Run resolved(const std::string& config, const SweepRun& planned, const fs::path& folder) {
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
  return runs::read_run(folder);
}

// One of the runs and where it is.
struct Placed {
  SweepRun planned;
  fs::path folder;
  bool done = false;
};

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// The folder of a finished run of this configuration, else the first name that is free.
Placed place(const SweepRun& planned, const runs::Run& wanted) {
  Placed placed{planned, {}, false};
  const fs::path dir = wanted.option_text("run.dir");
  for (const auto& entry : entries_if_there(dir)) {
    const auto name = entry.filename().string();
    const auto rest = name.starts_with(planned.name) ? name.substr(planned.name.size()) : "?";
    if (!rest.empty() && (rest[0] != '-' || !is_number(rest.substr(1)))) continue;
    if (!is_file(entry / "config.toml")) continue;
    if (is_done(runs::read_run(entry), wanted, planned)) {
      placed.folder = entry;
      placed.done = true;
      return placed;
    }
  }
  for (int n = 2; is_there(dir / placed.planned.name); ++n) placed.planned.name = cat(planned.name, "-", n);
  placed.folder = dir / placed.planned.name;
  return placed;
}

Sweep sweep_of(const SweepChoice& choice) {
  Sweep sweep;
  sweep.name = config::name_of_run(choice.config);
  sweep.ranks = counts_of(choice.ranks, "--gpus");
  sweep.nodes = counts_of(choice.nodes, "--nodes");
  if (choice.weak == "layers") sweep.weak = Weak::layers;
  if (choice.weak == "samples") sweep.weak = Weak::samples;
  for (const auto& text : choice.overrides) {
    if (text.starts_with("run.name=")) {
      sweep.name = text.substr(9);
    } else if (auto axis = axis_of(text)) {
      sweep.axes.push_back(std::move(*axis));
    } else {
      sweep.overrides.push_back(text);
    }
  }
  if (!choice.submit && sweep.nodes.back() > 1)
    throw Error(cat("--nodes ", choice.nodes, ": runs on several nodes are submitted"), "add --submit");
  return sweep;
}

std::vector<Placed> plan(const std::string& config, const Sweep& sweep) {
  const Scratch scratch;
  SweepRun smallest{sweep.name, sweep.nodes.front(), sweep.ranks.front(), sweep.overrides};
  for (const auto& axis : sweep.axes) smallest.overrides.push_back(cat(axis.option, "=", axis.values.front()));
  const auto base = resolved(config, smallest, scratch.path() / "base");
  std::vector<Placed> placed;
  for (const auto& planned : planned_runs(sweep, base))
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

// The tables to report; without --table that of this kind of scaling.
std::vector<std::string> tables_of(const SweepChoice& choice) {
  if (!choice.tables.empty() || choice.weak.empty()) return choice.tables;
  if (choice.weak == "layers") return {"weak-layers"};
  return {choice.nodes == "1" ? "zero-scaling" : "zero-nodes"};
}

std::vector<std::string> report_line(const SweepChoice& choice, const std::vector<std::string>& folders) {
  std::vector<std::string> line{own_program(), "report", "--leave-out"};
  line.insert(line.end(), folders.begin(), folders.end());
  for (const auto& table : tables_of(choice)) line.insert(line.end(), {"--table", table});
  if (!choice.base.empty()) line.insert(line.end(), {"--base", choice.base});
  if (choice.format != "text") line.insert(line.end(), {"--format", choice.format});
  if (!choice.output.empty()) line.insert(line.end(), {"-o", choice.output});
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
void submit_all(const SweepChoice& choice, const std::string& name, const std::vector<Placed>& runs) {
  std::string jobs;
  for (const auto& run : runs) {
    if (run.done) continue;
    std::vector<std::string> command{choice.submitter, cat("--nodes=", run.planned.nodes),
                                     cat("--gpus-per-node=", run.planned.ranks_per_node),
                                     cat("--job-name=", run.planned.name)};
    command.insert(command.end(), choice.sbatch.begin(), choice.sbatch.end());
    command.push_back(fs::absolute(choice.config).string());
    const auto ended = run_program(with_overrides(std::move(command), run), true);
    terminal::print(ended.said);
    if (ended.code != 0) throw Error(cat(choice.submitter, " ended with exit code ", ended.code));
    jobs += ":" + job_number(ended.said);
  }
  std::vector<std::string> folders;
  for (const auto& run : runs) folders.push_back(run.folder.string());
  std::vector<std::string> words;
  for (const auto& word : report_line(choice, folders)) words.push_back(quoted(word));
  const auto ended = run_program({"sbatch", "--dependency=afterany" + jobs, cat("--job-name=", name, "-report"),
                                  "--output=%x-%j.out", "--ntasks=1", "--wrap=" + join(words, " ")},
                                 true);
  if (ended.code != 0) throw Error("sbatch refuses the report's job: " + trim(ended.said));
  terminal::print(cat("the report comes when all have ended: ", name, "-report-", job_number(ended.said), ".out\n"));
}

// Runs what is not done, and reports on all that is. The exit code.
int run_and_report(const SweepChoice& choice, std::vector<Placed>& runs) {
  const bool well = run_all(choice.config, runs);
  std::vector<std::string> folders;
  for (const auto& run : runs) {
    if (run.done) folders.push_back(run.folder.string());
  }
  if (folders.empty()) return static_cast<int>(ExitCode::failure);
  const auto ended = run_program(report_line(choice, folders), false);
  return ended.code != 0 || well ? ended.code : static_cast<int>(ExitCode::failure);
}

int run_sweep(const SweepChoice& choice) {
  monitor::check_output(choice.output);
  const auto sweep = sweep_of(choice);
  auto runs = plan(choice.config, sweep);
  bool all_done = true;
  for (const auto& run : runs) {
    if (run.done) terminal::print(cat("sweep: ", run.planned.name, " is there: ", run.folder.string(), "\n"));
    all_done = all_done && run.done;
  }
  if (!choice.submit || all_done) return run_and_report(choice, runs);
  submit_all(choice, sweep.name, runs);
  return static_cast<int>(ExitCode::success);
}

void declare(command::Arguments& arguments, SweepChoice& choice) {
  arguments.value("config", choice.config, "configuration file (TOML)").required();
  arguments.values("overrides", choice.overrides,
                   "options that win over the file; train.micro_batch=1,2,4 makes a run of each value");
  arguments.value("--gpus,--ranks,-n", choice.ranks, "GPUs of a node, or ranks on CPUs: 1,2,4 (default 1)");
  arguments.value("--nodes", choice.nodes, "nodes: 1,2,4 (default 1); more than one needs --submit");
  arguments
      .value("--weak", choice.weak,
             "layers: model.num_layers grows with the ranks and train.micro_batch shrinks; samples: "
             "data.train_samples grows; both from the smallest run's")
      .one_of({"layers", "samples"});
  arguments.flag("--submit", choice.submit, "as SLURM jobs, and the report as a job after them");
  arguments.value("--submitter", choice.submitter, "what submits a run (default slurm/submit)");
  arguments.values("--sbatch", choice.sbatch, "an option for sbatch, such as --sbatch=--time=01:00:00").one_each();
  arguments.values("--table", choice.tables, "as of capstan report").one_each("NAME");
  arguments.value("--base", choice.base, "as of capstan report: one of the sweep's runs");
  arguments.value("--format", choice.format, "as of capstan report").one_of({"text", "csv", "markdown", "html"});
  arguments.value("-o,--output", choice.output, "as of capstan report");
}

/// capstan sweep CONFIG
int run(const command::Call& call) {
  command::Arguments arguments;
  SweepChoice choice;
  declare(arguments, choice);
  if (const auto code = arguments.read(call)) return *code;
  // The report's job may run in another folder.
  if (choice.submit && !choice.output.empty()) choice.output = fs::absolute(choice.output).string();
  return run_sweep(choice);
}

}  // namespace

CAPSTAN_COMMAND("sweep", "0.1.0",
                "run one configuration on several numbers of GPUs and with several values, and report on all of it",
                run)

}  // namespace sweep
