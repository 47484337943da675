#pragma once
#include <capstan/config/options.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace preflight {

/// [preflight]
struct PreflightOptions {
  std::string before_run = "auto";
  double min_bus_gbps = 0;
  std::int64_t gate_mib = 4096;
  std::int64_t gate_warmup = 20;
  std::int64_t gate_iterations = 50;
  std::int64_t largest_mib = 1024;
  std::int64_t pair_mib = 32;
  std::int64_t gemm_size = 0;
  double gemm_seconds = 0.5;
  double least_share = 0.8;
  std::int64_t write_mib = 256;
  double min_free_gib = 10;
  double max_skew_s = 1;
  /// Whether `run` measures something first: the gate, or all.
  bool measures_before_run() const { return before_run == "auto" ? min_bus_gbps > 0 : before_run != "off"; }
  static void describe(capstan::config::OptionTable<PreflightOptions>& t);
};

/// Adds the faults of the table that no option's range says.
void check_options(const capstan::config::Options<PreflightOptions>& options, capstan::Diagnostics& faults);

/// What a single rank measured. Numbers below 0 were not measured.
struct RankMeasures {
  std::string host;
  std::string device;  ///< describe_gpu(), or "cpu"
  int node = 0;
  std::map<std::string, std::string> versions;  ///< "LibTorch" -> "2.11.0"
  std::map<std::string, int> links;             ///< NCCL's channels by transport: "P2P/CUMEM" -> 16
  std::string clocks;                           ///< the GPU's under load; "throttled: …" if it is
  double gemm_tflops = -1;
  double to_device_gbps = -1;
  double to_host_gbps = -1;
  double write_gbps = -1;
  double free_bytes = -1;
  double clock_s = 0;   ///< the host's clock at one moment for all, seconds
  std::string problem;  ///< why something could not be measured

  std::string serialized() const;
  static RankMeasures parse(const std::string& text);
};

/// A collective over `ranks` ranks. GB are 10^9 bytes; `bus_gbps` is NCCL's bus bandwidth.
struct Bandwidth {
  std::string operation;
  std::int64_t bytes = 0;
  int ranks = 0;
  double seconds = 0;
  double bus_gbps = 0;
  std::vector<int> wrong;  ///< ranks with wrong values
};

/// What two ranks sent each other at the same time, GB/s each way.
struct PairBandwidth {
  int a = 0;
  int b = 0;
  double gbps = 0;
};

/// The gate's two all-reduces; nothing if there is only one rank.
struct Gate {
  std::optional<Bandwidth> one_a_node;
  std::optional<Bandwidth> all;
  std::string problem;  ///< why it could not be measured
};

struct PreflightReport {
  std::vector<RankMeasures> ranks;
  std::vector<Bandwidth> collectives;
  std::vector<PairBandwidth> pairs;
  std::optional<Gate> gate;
};

struct Finding {
  bool fails = false;  ///< else a warning
  std::string text;    ///< names the rank
};

/// The findings from the measurements; the worst first.
struct Verdict {
  std::vector<Finding> findings;
  int exit_code = 0;
  /// "preflight: PASS: 8 ranks on 2 nodes, …"
  std::string line;
};

/// bytes moved a second over a link, from a collective's time: total bytes / time x 2(n-1)/n for all-reduce, x (n-1)/n
/// for reduce-scatter and all-gather (nccl-tests, PERFORMANCE.md); GB/s.
double bus_bandwidth(const std::string& operation, std::int64_t bytes, int ranks, double seconds);
double median(std::vector<double> values);

Verdict judge(const PreflightReport& report, const PreflightOptions& options);
/// Tables for people, without the verdict.
std::string report_text(const PreflightReport& report);
/// The file preflight.json.
std::string report_json(const PreflightReport& report, const Verdict& verdict);

}  // namespace preflight
