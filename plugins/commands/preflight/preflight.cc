#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/ranks/connected_rank.h>

#include <ATen/DeviceAccelerator.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iomanip>
#include <string>
#include <utility>
#include <vector>

#include "link_measures.h"
#include "rank_measures.h"
#include "report.h"

namespace preflight {
namespace {

using namespace capstan;
namespace fs = std::filesystem;
constexpr std::int64_t mib = 1LL << 20U;

// A rank, and what is measured of it.
struct Measured {
  comm::Communicator& communicator;
  command::RankDevice about;
  fs::path run_dir;
  std::function<std::optional<std::string>(const std::string&)> environment;
  const PreflightOptions& options;
  bool everything = true;         // else only the gate
  std::function<void()> between;  // called between the parts, on all ranks alike; may throw

  bool first() const { return communicator.world().rank == 0; }
  c10::Device device() const {
    if (about.kind == "cpu") return c10::Device(c10::kCPU);
    return {c10::kCUDA, static_cast<c10::DeviceIndex>(about.gpu)};
  }
};

/// What NCCL has logged of this process so far: the file that NCCL_DEBUG_FILE names, if this program set it.
std::string nccl_log(const Measured& rank) {
  const auto pattern = rank.environment("NCCL_DEBUG_FILE");
  if (!pattern) return {};
  const auto end = cat("-", ::getpid());
  const auto start = pattern->substr(0, pattern->find('%'));
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(fs::path(start).parent_path(), none)) {
    const auto name = entry.path().string();
    if (!name.starts_with(start) || !name.ends_with(end)) continue;
    auto log = read_file(entry.path());
    fs::remove(entry.path(), none);
    return log;
  }
  return {};
}

RankMeasures measure_rank(const Measured& rank) {
  const auto& options = rank.options;
  const auto device = rank.device();
  const auto& world = rank.communicator.world();
  RankMeasures measures;
  measures.host = world.host;
  measures.node = world.node;
  measures.device = device.is_cpu() ? "cpu" : rank.about.description;
  measures.versions = library_versions(rank.about.driver_version);
  measures.gemm_tflops = measure_gemm(device, options.gemm_size, options.gemm_seconds);
  measures.clocks = rank.about.uuid.empty() ? "" : gpu_clocks(rank.about.uuid);
  measure_copies(device, measures);
  measure_disk(rank.run_dir, world.rank, options.write_mib * mib, measures);
  measures.links = links_of_log(nccl_log(rank));
  if (device.is_cpu() && world.size > 1) measures.links["Gloo over TCP"] = 0;
  return measures;
}

void measure_collectives(const Measured& rank, LinkMeasures& links, PreflightReport& report) {
  const auto& options = rank.options;
  const bool slow = rank.device().is_cpu();
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : {std::int64_t{1}, std::int64_t{64}, options.largest_mib}) {
    if (size <= options.largest_mib && (sizes.empty() || size > sizes.back())) sizes.push_back(size);
  }
  for (const char* operation : {"all-reduce", "reduce-scatter", "all-gather"}) {
    for (const std::int64_t size : sizes) {
      const std::int64_t iterations = size > 64 ? 5 : 20;
      report.collectives.push_back(links.collective(operation, size * mib, slow ? 1 : 5,
                                                    slow ? std::max<std::int64_t>(1, iterations / 5) : iterations));
    }
  }
  if (options.pair_mib > 0) report.pairs = links.pairs(options.pair_mib * mib);
}

void measure_gate(const Measured& rank, LinkMeasures& links, PreflightReport& report) {
  const auto& options = rank.options;
  if (options.min_bus_gbps <= 0) return;
  if (rank.first()) {
    terminal::print(cat("measuring the all-reduce bandwidth, ", options.gate_warmup + options.gate_iterations,
                        " times ", bytes_text(static_cast<double>(options.gate_mib * mib)), " …\n"));
    std::fflush(stdout);
  }
  report.gate = links.gate(options.gate_mib * mib, options.gate_warmup, options.gate_iterations);
  if (!rank.first()) return;
  const auto say = [](const char* who, const std::optional<Bandwidth>& measured) {
    if (!measured) return;
    terminal::print(
        cat("Measured AllReduce BW: ", std::fixed, std::setprecision(2), measured->bus_gbps, " GB/s", who, "\n"));
  };
  say(" (one rank a node)", report.gate->one_a_node);
  say("", report.gate->all);
  std::fflush(stdout);
}

PreflightReport measure_all(const Measured& rank) {
  PreflightReport report;
  auto& communicator = rank.communicator;
  const auto device = rank.device();
  if (communicator.world().size > 1) {
    LinkMeasures links(communicator, device, rank.between);
    measure_gate(rank, links, report);
    if (rank.everything) measure_collectives(rank, links, report);
  }
  rank.between();
  RankMeasures own;
  own.host = communicator.world().host;
  if (rank.everything) own = measure_rank(rank);
  if (!device.is_cpu()) {  // nothing of this is the run's
    at::accelerator::emptyCache();
    at::accelerator::resetPeakStats(device.index());
  }
  (void)communicator.exchange("ready");  // now, on all hosts
  own.clock_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  for (const auto& text : communicator.exchange(own.serialized())) report.ranks.push_back(RankMeasures::parse(text));
  return report;
}

// Leaves preflight.json in the folder and returns the exit code.
int measure_and_judge(const Measured& rank, const fs::path& folder) {
  const auto report = measure_all(rank);
  const auto verdict = judge(report, rank.options);  // the numbers are the same on all ranks
  if (!rank.first()) return verdict.exit_code;
  write_file(folder / "preflight.json", report_json(report, verdict));
  if (rank.everything) terminal::print(report_text(report));
  for (const auto& finding : verdict.findings)
    terminal::print(cat(finding.fails ? "FAIL" : "WARN", ": ", finding.text, "\n"));
  if (verdict.exit_code == static_cast<int>(ExitCode::bandwidth_low))
    terminal::print("Bandwidth below threshold – aborting\n");
  terminal::print(verdict.line + "\n");
  std::fflush(stdout);
  return verdict.exit_code;
}

// NCCL tells which links it chose only in its log: into a file that each rank reads and removes.
void ask_nccl_for_its_links(const command::Call& call) {
  if (call.environment("NCCL_DEBUG")) return;  // the user's stays
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 0);  // NOLINT(concurrency-mt-unsafe): before any thread is started
  };
  set("NCCL_DEBUG", "INFO");
  set("NCCL_DEBUG_SUBSYS", "INIT,NET,P2P,SHM");
  set("NCCL_DEBUG_FILE", (fs::temp_directory_path() / "capstan-nccl-%h-%p").string());
}

/// capstan preflight CONFIG: measures what the ranks of a run would have, says what is wrong with it in one line, and
/// leaves preflight.json in a folder of its own, <run.dir>/<run.name>-preflight. As a step of a run: what
/// preflight.before_run asks for, with preflight.json in the run's folder.
class Preflight : public command::Command, public command::RunExtension {
 public:
  explicit Preflight(config::Options<PreflightOptions> options) : options_(std::move(options)) {}

  int run(const command::Call& call) override {
    command::Arguments arguments;
    std::string config;
    std::vector<std::string> overrides;
    int ranks = 0;
    bool spawn_local = false;
    arguments.configuration(config, overrides);
    arguments.ranks(ranks);
    arguments.flag("--spawn-local", spawn_local,
                   "under srun with one task a node: start the node's ranks, one a GPU, or -n of them");
    if (const auto code = arguments.read(call)) return *code;
    ranks::StartTables tables;
    const auto prepare = [&](const ranks::StartTables& read, Diagnostics& faults) {
      tables = read;
      options_ = config::Options<PreflightOptions>(tables.own, faults);
      check_options(options_, faults);
      if (tables.on_gpus) ask_nccl_for_its_links(call);
    };
    return ranks::with_ranks({call, config, overrides, ranks, spawn_local}, prepare,
                             [&](const ranks::ConnectedRank& rank) { return measure(rank, tables, call); });
  }

  void check(Diagnostics& faults) const override { check_options(options_, faults); }

  int before_training(const command::RankOfRun& rank) override {
    if (!options_->measures_before_run()) return 0;
    return measure_and_judge({rank.communicator, rank.device, rank.folder.parent_path(), rank.environment, *options_,
                              options_->before_run == "full", rank.end_if_asked},
                             rank.folder);
  }

 private:
  int measure(const ranks::ConnectedRank& rank, const ranks::StartTables& tables, const command::Call& call) const {
    rank.print_start();
    const auto folder = rank.new_folder("making the report's folder", tables.run_dir, tables.run_name + "-preflight");
    rank.record_start(folder);
    const auto no_stop = [] {};  // signals end it at once
    return measure_and_judge(
        {rank.communicator(), rank.device(), tables.run_dir, call.environment, *options_, true, no_stop}, folder);
  }

  config::Options<PreflightOptions> options_;
};

}  // namespace

CAPSTAN_RUN_COMMAND(
    "preflight", "0.1.0",
    "measure devices, links, bandwidth, matrix rate and disk of the run's ranks; one PASS, WARN or FAIL", Preflight,
    PreflightOptions)

}  // namespace preflight
