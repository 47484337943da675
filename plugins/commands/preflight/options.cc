#include "options.h"

namespace preflight {
namespace {

using namespace capstan;

// What is asked for beyond these is a slip of the keyboard, and would be measured for days without a word.
constexpr double most_mib = 1 << 20;
constexpr double most_times = 1'000'000;

}  // namespace

void PreflightOptions::describe(config::OptionTable<PreflightOptions>& t) {
  t.add("before_run", &PreflightOptions::before_run)
      .choices({"auto", "off", "gate", "full"})
      .doc(
          "what `run` measures before it builds the model. gate: all-reduce bandwidth against min_bus_gbps; full: all "
          "that `capstan preflight` does; a FAIL ends the run. auto: gate where min_bus_gbps is set, else off");
  t.add("min_bus_gbps", &PreflightOptions::min_bus_gbps)
      .min(0)
      .doc(
          "bus bandwidth, GB/s, that an all-reduce of gate_mib must reach, on one rank of each node and then on all: "
          "exit code 46 below it, 44 where it cannot be measured; 0: no gate");
  t.add("gate_mib", &PreflightOptions::gate_mib).min(1).max(most_mib).doc("size of the gate's all-reduce, MiB");
  t.add("gate_warmup", &PreflightOptions::gate_warmup)
      .min(0)
      .max(most_times)
      .doc("the gate's all-reduces before the measured ones");
  t.add("gate_iterations", &PreflightOptions::gate_iterations)
      .min(1)
      .max(most_times)
      .doc("the gate's measured all-reduces");
  t.add("largest_mib", &PreflightOptions::largest_mib)
      .min(1)
      .max(most_mib)
      .doc("largest all-reduce, reduce-scatter and all-gather measured otherwise, MiB; the smaller are 1 and 64");
  t.add("pair_mib", &PreflightOptions::pair_mib)
      .min(0)
      .max(most_mib)
      .doc("what each pair of ranks exchanges to find slow links, MiB; 0: pairs are not measured");
  t.add("gemm_size", &PreflightOptions::gemm_size)
      .min(0)
      .max(1 << 18)
      .doc("rows and columns of the multiplied matrices; 0: 8192 in bf16 on a GPU, 1024 in fp32 on a CPU");
  t.add("gemm_seconds", &PreflightOptions::gemm_seconds)
      .above(0)
      .max(3600)
      .doc("how long each rank multiplies matrices");
  t.add("least_share", &PreflightOptions::least_share)
      .min(0)
      .max(1)
      .doc("a rank or a pair below this share of the median is an outlier: WARN");
  t.add("write_mib", &PreflightOptions::write_mib)
      .min(0)
      .max(most_mib)
      .doc("what each rank writes into run.dir and syncs, MiB; 0: the disk is not measured");
  t.add("min_free_gib", &PreflightOptions::min_free_gib).min(0).doc("less free space in run.dir, GiB: WARN");
  t.add("max_skew_s", &PreflightOptions::max_skew_s).above(0).doc("clocks of the hosts that differ by more: WARN");
}

void check_options(const config::Options<PreflightOptions>& options, Diagnostics& faults) {
  if (options->before_run != "gate" || options->min_bus_gbps > 0) return;
  faults.add(options.where(&PreflightOptions::before_run),
             "preflight.before_run is \"gate\", but there is no threshold to measure against",
             "set preflight.min_bus_gbps, such as 5, or preflight.before_run = \"off\"");
}

}  // namespace preflight
