#include "plugins/commands/trace/trace_report.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <capstan_places.h>

using namespace trace;
using capstan::cat;

namespace {

std::string event(const std::string& category, const std::string& name, double ts, double dur, int tid,
                  int correlation = 0) {
  return cat(R"({"ph":"X","cat":")", category, R"(","name":")", name, R"(","pid":1,"tid":)", tid, R"(,"ts":)", ts,
             R"(,"dur":)", dur, R"(,"args":{"correlation":)", correlation, "}},");
}

std::string trace_of(const std::string& events) {
  return cat(R"({"schemaVersion":1,"traceEvents":[)", events, R"({"ph":"M","name":"process_name"}]})");
}

// One step of 1000 us: forward on thread 1, backward on thread 2. GEMM 0-300, attention 300-500, an all-gather from 400
// to 600 (half of it hidden), the optimizer's kernel 700-800; nothing from 600 to 700 and after 800.
std::string gpu_trace() {
  return trace_of(
      event("user_annotation", "step 3", 0, 1000, 1) + event("user_annotation", "forward blocks.0", 0, 100, 1) +
      event("user_annotation", "all-gather 'fsdp blocks.1'", 50, 10, 1) +
      event("user_annotation", "backward blocks.0", 100, 100, 2) + event("user_annotation", "optimizer", 200, 50, 1) +
      event("cuda_runtime", "cudaLaunchKernel", 10, 5, 1, 11) +
      event("cuda_runtime", "cudaLaunchKernel", 120, 5, 2, 12) +
      event("cuda_runtime", "cudaLaunchKernelExC", 52, 5, 1, 13) +
      event("cuda_runtime", "cudaLaunchKernel", 210, 5, 1, 14) +
      event("kernel", "sm90_xmma_gemm_bf16bf16", 0, 300, 7, 11) +
      event("kernel", "cudnn_generated_fort_native_sdpa_sm90_flash_bprop", 300, 200, 7, 12) +
      event("kernel", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 400, 200, 20, 13) +
      event("kernel", "at::native::multi_tensor_apply_kernel", 700, 100, 7, 14));
}

}  // namespace

TEST_CASE("kernels are known by their libraries' names") {
  CHECK(kernel_kind("nvjet_tst_256x128_64x4_2x1_v_bz_coopA_TNT") == "GEMM");
  CHECK(kernel_kind("void cutlass::Kernel2<cutlass_80_tensorop_bf16>") == "GEMM");
  CHECK(kernel_kind("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits>") == "attention");
  CHECK(kernel_kind("fmha_cutlassF_bf16_aligned_64x64_rf_sm80") == "attention");
  CHECK(kernel_kind("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL") == "collective");
  CHECK(kernel_kind("void at::native::vectorized_elementwise_kernel<4>") == "elementwise");
}

TEST_CASE("a GPU's time by kind, by unit, exposed and hidden collectives, idle") {
  const auto report = read_trace(gpu_trace(), "a.json");
  CHECK(report.gpu);
  CHECK(report.steps == 1);
  CHECK(report.window_ms == Approx(1));
  CHECK(report.kinds.at("GEMM") == Approx(0.3));
  CHECK(report.kinds.at("attention") == Approx(0.2));
  CHECK(report.kinds.at("optimizer") == Approx(0.1));
  CHECK(report.hidden_ms == Approx(0.1));
  CHECK(report.exposed_ms == Approx(0.1));
  CHECK(report.idle_ms == Approx(0.3));
  CHECK(report.launches == 4);
  CHECK(report.units.at("forward blocks.0") == Approx(0.3));
  CHECK(report.units.at("backward blocks.0") == Approx(0.2));
  CHECK(report.units.at("optimizer") == Approx(0.1));
  const auto text = trace_text(report);
  CHECK_THAT(text, Contains("1 step, 1.000 ms each, 4 launches a step"));
  CHECK_THAT(text, Contains("GEMM                  0.300      30.0 %"));
  CHECK_THAT(text, Contains("collectives, exposed  0.100      10.0 %"));
  CHECK_THAT(text, Contains("sm90_xmma_gemm_bf16bf16"));
}

TEST_CASE("kernels that a thread without spans launches during backward are the unit's") {
  const auto report =
      read_trace(trace_of(event("user_annotation", "step 0", 0, 1000, 1) +
                          event("user_annotation", "forward blocks.0", 0, 100, 1) +
                          event("user_annotation", "backward blocks.0", 100, 400, 1) +
                          event("cuda_runtime", "cudaLaunchKernel", 50, 5, 99, 1) +
                          event("cuda_driver", "cuLaunchKernelEx", 150, 5, 99, 2) + event("kernel", "a", 60, 10, 7, 1) +
                          event("kernel", "nvjet_sm90_tst", 200, 100, 7, 2)),
                 "a.json");
  CHECK(report.units == std::map<std::string, double>{{"backward blocks.0", 0.1}, {"elsewhere", 0.01}});
}

TEST_CASE("two steps of four products, tanh and an update, as the profiler recorded them on an H200") {
  const auto file = cat(CAPSTAN_SOURCE_DIR, "/tests/fixtures/traces/two_steps_h200.json");
  const auto report = read_trace(capstan::read_file(file), file);
  CHECK(report.steps == 2);
  CHECK(report.launches == 54);
  CHECK(report.window_ms == Approx(10.082).epsilon(0.01));
  CHECK(report.kinds.at("GEMM") == Approx(3.548).epsilon(0.01));
  CHECK(report.idle_ms == Approx(5.8).epsilon(0.01));
  // Backward's kernels were launched by a thread of autograd's, which had no span of its own.
  CHECK(report.units.at("backward blocks.3") == Approx(2.782).epsilon(0.01));
  CHECK(report.units.size() == 6);
  double kinds = report.exposed_ms + report.idle_ms;
  for (const auto& [name, ms] : report.kinds) kinds += ms;
  CHECK(kinds == Approx(report.window_ms).epsilon(1e-3));  // one stream: nothing overlaps
}

TEST_CASE("without a GPU the spans are the work, and a collective is not its unit's") {
  const auto report = read_trace(trace_of(event("user_annotation", "step 0", 0, 1000, 1) +
                                          event("user_annotation", "forward blocks.0", 0, 400, 1) +
                                          event("user_annotation", "all-gather 'x'", 100, 100, 1) +
                                          event("user_annotation", "optimizer", 500, 200, 1)),
                                 "a.json");
  CHECK_FALSE(report.gpu);
  CHECK(report.units.at("forward blocks.0") == Approx(0.3));
  CHECK(report.units.at("optimizer") == Approx(0.2));
  CHECK(report.exposed_ms == Approx(0.1));
  CHECK_THAT(trace_text(report), Contains("(no GPU)") && Contains("collectives"));
}

TEST_CASE("without a GPU collectives of threads that work at once count once, and those during work are hidden") {
  const auto report =
      read_trace(trace_of(event("user_annotation", "step 0", 0, 1000, 1) +
                          event("user_annotation", "forward blocks.0", 0, 600, 1) +
                          event("user_annotation", "all-gather 'x'", 100, 100, 1) +     // the thread waits for it
                          event("user_annotation", "reduce 'y'", 300, 500, 2) +         // during the unit until 600
                          event("user_annotation", "reduce 'z'", 400, 500, 3) +         // at the same time as the other
                          event("user_annotation", "all-gather 'late'", 950, 400, 2)),  // the step ends at 1000
                 "a.json");
  CHECK(report.units.at("forward blocks.0") == Approx(0.5));
  CHECK(report.hidden_ms == Approx(0.3));
  CHECK(report.exposed_ms == Approx(0.1 + 0.3 + 0.05));
  const auto text = trace_text(report);
  INFO(text);
  CHECK_THAT(
      text, Contains("collectives, exposed  0.450      45.0 %") && Contains("collectives, hidden   0.300      30.0 %"));
}

TEST_CASE("what goes between stages is listed by micro-batch, on a GPU by its kernels") {
  const std::string states = "transfer 'states of micro-batch 2 from stage 1 to 2'";
  const auto on_cpu =
      read_trace(trace_of(event("user_annotation", "step 0", 0, 1000, 1) +
                          event("user_annotation", "backward weights of micro-batch 1 in stage 1", 0, 400, 1) +
                          event("user_annotation", states, 500, 100, 1) + event("user_annotation", states, 700, 50, 1) +
                          event("user_annotation", "transfer 'a table'", 800, 50, 1)),
                 "a.json");
  REQUIRE(on_cpu.transfers.size() == 1);
  CHECK(on_cpu.transfers.at("states of micro-batch 2 from stage 1 to 2") == Approx(0.15));
  CHECK(on_cpu.units == std::map<std::string, double>{{"backward weights of micro-batch 1 in stage 1", 0.4}});
  CHECK_THAT(trace_text(on_cpu), Contains("sent or received") && Contains("states of micro-batch 2 from stage 1 to 2"));
  const auto on_gpu = read_trace(
      trace_of(event("user_annotation", "step 0", 0, 1000, 1) + event("user_annotation", states, 500, 100, 1) +
               event("cuda_runtime", "cudaLaunchKernelExC", 550, 5, 1, 3) +
               event("cuda_runtime", "cudaLaunchKernelExC", 650, 5, 1, 4) +
               event("kernel", "ncclDevKernel_SendRecv", 600, 200, 20, 3) +
               event("kernel", "ncclDevKernel_SendRecv", 800, 100, 20, 4)),
      "a.json");
  CHECK(on_gpu.transfers == std::map<std::string, double>{{"states of micro-batch 2 from stage 1 to 2", 0.2}});
  CHECK_THAT(trace_text(read_trace(gpu_trace(), "a.json")), !Contains("sent or received"));
}

TEST_CASE("times that no clock gives are refused with the event") {
  for (const auto& [begin, lasts] :
       {std::pair{0.0, -5.0}, std::pair{-1.0, 5.0}, std::pair{0.0, 1e300}, std::pair{1e300, 1.0}}) {
    INFO(begin << " " << lasts);
    CHECK_THROWS_WITH(read_trace(trace_of(event("user_annotation", "step 0", 0, 1000, 1) +
                                          event("user_annotation", "optimizer", begin, lasts, 1)),
                                 "b.json"),
                      Contains("b.json, traceEvents[1]: the event 'optimizer' begins at ") && Contains("no clock"));
  }
}

TEST_CASE("what is no trace of a run is named") {
  CHECK_THROWS_WITH(read_trace("{", "b.json"), Contains("b.json") && Contains("no Chrome trace"));
  CHECK_THROWS_WITH(read_trace(trace_of(""), "b.json"), Contains("b.json") && Contains("[monitor.trace]"));
}
