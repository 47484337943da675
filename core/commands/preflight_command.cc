#include "commands/preflight_command.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/config/run_name.h>

#include <ATen/DeviceAccelerator.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iomanip>

#include "cli/plugin_folders.h"
#include "comm/agree.h"
#include "commands/run_command.h"
#include "config/document.h"
#include "launch/error_report.h"
#include "observe/run_folder.h"
#include "plugin/hints.h"
#include "preflight/link_measures.h"
#include "preflight/rank_measures.h"
#include "preflight/report.h"

namespace capstan::commands {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t mib = 1LL << 20U;

c10::Device device_of(const ranks::Rank& rank) {
  if (rank.device.name == "cpu") return c10::Device(c10::kCPU);
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(rank.device.gpu.device)};
}

/// What NCCL has logged of this process so far: the file that NCCL_DEBUG_FILE names, if this program set it.
std::string nccl_log(const ranks::Rank& rank) {
  const auto pattern = rank.settings.all.find("NCCL_DEBUG_FILE");
  if (pattern == rank.settings.all.end()) return {};
  const auto end = cat("-", ::getpid());
  const auto start = pattern->second.substr(0, pattern->second.find('%'));
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

preflight::RankMeasures measure_rank(const ranks::Rank& rank, const setup::PreflightOptions& options) {
  const auto device = device_of(rank);
  const auto& world = rank.launch.world;
  preflight::RankMeasures measures;
  measures.host = world.host;
  measures.node = world.node;
  measures.device = device.is_cpu() ? "cpu" : rank.device.gpu.description;
  measures.versions = preflight::library_versions(rank.device.gpu.driver_version);
  measures.gemm_tflops = preflight::measure_gemm(device, options.gemm_size, options.gemm_seconds);
  measures.clocks = rank.device.gpu.uuid.empty() ? "" : launch::gpu_clocks(rank.device.gpu.uuid);
  preflight::measure_copies(device, measures);
  preflight::measure_disk(rank.early.run.dir, world.rank, options.write_mib * mib, measures);
  measures.links = preflight::links_of_log(nccl_log(rank));
  if (device.is_cpu() && world.size > 1) measures.links["Gloo over TCP"] = 0;
  return measures;
}

void measure_collectives(const ranks::Rank& rank, const setup::PreflightOptions& options,
                         preflight::LinkMeasures& links, preflight::PreflightReport& report) {
  const bool slow = rank.device.name == "cpu";
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

void measure_gate(const setup::PreflightOptions& options, preflight::LinkMeasures& links, bool first,
                  preflight::PreflightReport& report) {
  if (options.min_bus_gbps <= 0) return;
  if (first) {
    terminal::print(cat("measuring the all-reduce bandwidth, ", options.gate_warmup + options.gate_iterations,
                        " times ", bytes_text(static_cast<double>(options.gate_mib * mib)), " …\n"));
    std::fflush(stdout);
  }
  report.gate = links.gate(options.gate_mib * mib, options.gate_warmup, options.gate_iterations);
  if (!first) return;
  const auto say = [](const char* who, const std::optional<preflight::Bandwidth>& measured) {
    if (!measured) return;
    terminal::print(
        cat("Measured AllReduce BW: ", std::fixed, std::setprecision(2), measured->bus_gbps, " GB/s", who, "\n"));
  };
  say(" (one rank a node)", report.gate->one_a_node);
  say("", report.gate->all);
  std::fflush(stdout);
}

/// `between` is called between the parts, on all ranks alike, and may throw.
preflight::PreflightReport measure_all(const ranks::Rank& rank, const setup::PreflightOptions& options, bool everything,
                                       const std::function<void()>& between) {
  preflight::PreflightReport report;
  auto& communicator = *rank.communicator;
  const auto device = device_of(rank);
  if (rank.launch.world.size > 1) {
    preflight::LinkMeasures links(communicator, device, between);
    measure_gate(options, links, rank.first(), report);
    if (everything) measure_collectives(rank, options, links, report);
  }
  between();
  preflight::RankMeasures own;
  own.host = rank.launch.world.host;
  if (everything) own = measure_rank(rank, options);
  if (!device.is_cpu()) {  // nothing of this is the run's
    at::accelerator::emptyCache();
    at::accelerator::resetPeakStats(device.index());
  }
  (void)communicator.exchange("ready");  // now, on all hosts
  own.clock_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  for (const auto& text : communicator.exchange(own.serialized()))
    report.ranks.push_back(preflight::RankMeasures::parse(text));
  return report;
}

int conclude(const ranks::Rank& rank, const setup::PreflightOptions& options, const preflight::PreflightReport& report,
             bool everything, const fs::path& folder) {
  const auto verdict = preflight::judge(report, options);  // of the same numbers on all ranks
  if (!rank.first()) return verdict.exit_code;
  write_file(folder / "preflight.json", preflight::report_json(report, verdict));
  if (everything) terminal::print(preflight::report_text(report));
  for (const auto& finding : verdict.findings)
    terminal::print(cat(finding.fails ? "FAIL" : "WARN", ": ", finding.text, "\n"));
  if (verdict.exit_code == static_cast<int>(ExitCode::bandwidth_low))
    terminal::print("Bandwidth below threshold – aborting\n");
  terminal::print(verdict.line + "\n");
  std::fflush(stdout);
  return verdict.exit_code;
}

/// Faults of the tables that the pre-flight reads end it before anything is measured; the model's do not matter to it.
void check_tables(const launch::RunArguments& arguments) {
  Diagnostics diagnostics;
  const auto document = config::load(arguments.config, arguments.overrides, diagnostics);
  setup::check_run(config::Options<setup::RunOptions>(document.section("run"), diagnostics), diagnostics);
  (void)config::Options<setup::CommOptions>(document.section("comm"), diagnostics);
  setup::check_preflight(config::Options<setup::PreflightOptions>(document.section("preflight"), diagnostics),
                         diagnostics);
  diagnostics.throw_if_any();
}

/// NCCL tells which links it chose only in its log: into a file that each rank reads and removes.
void ask_nccl_for_its_links(const setup::RunOptions& run) {
  if (run.device == "cpu" || launch::ask_driver().gpus.empty()) return;
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 0);  // NOLINT(concurrency-mt-unsafe): before any thread is started
  };
  if (::getenv("NCCL_DEBUG") != nullptr) return;  // NOLINT(concurrency-mt-unsafe): the user's stays
  set("NCCL_DEBUG", "INFO");
  set("NCCL_DEBUG_SUBSYS", "INIT,NET,P2P,SHM");
  set("NCCL_DEBUG_FILE", (fs::temp_directory_path() / "capstan-nccl-%h-%p").string());
}

}  // namespace

int preflight_command(const launch::RunArguments& arguments, const launch::Environment& env) {
  try {
    check_tables(arguments);
  } catch (const Error& error) {
    plugin::Host host(cli::plugin_folders(env), false, cli::trusts_writers(env));
    if (launch::read_launch(env).world.rank == 0) launch::report_exception(plugin::with_hints(error, host));
    return static_cast<int>(ExitCode::usage);
  }
  ask_nccl_for_its_links(ranks::read_early(arguments).run);
  return ranks::run_as_rank(arguments, env, [&](ranks::Rank& rank) {
    ranks::print_start_table(rank);
    const auto& options = rank.early.preflight;
    const auto name = cat(rank.early.run.name.value_or(config::name_of_run(arguments.config)), "-preflight");
    const fs::path folder = comm::from_first_rank(*rank.communicator, "making the report's folder", [&] {
      return observe::RunFolder::make(rank.early.run.dir, name).string();
    });
    ranks::record_start(rank, folder);
    const auto report = measure_all(rank, options, /*everything=*/true, [] {});  // signals end it at once
    return conclude(rank, options, report, /*everything=*/true, folder);
  });
}

int preflight_of_run(const ranks::Rank& rank, const fs::path& folder, const std::function<void()>& end_if_asked) {
  const auto& options = rank.early.preflight;
  if (!options.measures_before_run()) return 0;
  const bool everything = options.before_run == "full";
  const auto report = measure_all(rank, options, everything, end_if_asked);
  return conclude(rank, options, report, everything, folder);
}

void add_preflight_command(CLI::App& app, cli::Chosen& chosen) {
  auto* command = app.add_subcommand(
      "preflight",
      "measure devices, links, bandwidth, matrix rate and disk of the run's ranks; one PASS, WARN or FAIL");
  cli::add_ranks_arguments(*command, chosen, preflight_command);
}

}  // namespace capstan::commands
