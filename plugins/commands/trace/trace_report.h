#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trace {

/// What a GPU, or on CPU ranks the training's threads, did in the steps of a trace; milliseconds of all steps together.
struct TraceReport {
  struct Kernel {
    double ms = 0;
    std::int64_t calls = 0;
  };
  std::int64_t steps = 0;
  bool gpu = false;
  double window_ms = 0;                 ///< from the first step's begin to the end of the last work
  std::map<std::string, double> kinds;  ///< "GEMM", "attention", "elementwise", "optimizer", "copies"
  double exposed_ms = 0;                ///< in collectives while no other kernel ran
  double hidden_ms = 0;                 ///< … while one did
  double idle_ms = 0;                   ///< nothing ran
  std::int64_t launches = 0;
  std::map<std::string, double> units;      ///< "forward blocks.3" and the like; "optimizer"
  std::map<std::string, double> transfers;  ///< between stages: "states of micro-batch 2 from stage 1 to 2"
  std::map<std::string, Kernel> kernels;
};

/// "GEMM", "attention", "collective" or "elementwise", by the names that cuBLAS, CUTLASS, cuDNN, FlashAttention and
/// NCCL give their kernels.
std::string kernel_kind(const std::string& name);

/// Reads a Chrome trace, as the monitor trace writes it. Throws Error that names `file` for any other text.
TraceReport read_trace(const std::string& text, const std::string& file);

/// The tables: time by kind, by unit, the kernels that took most.
std::string trace_text(const TraceReport& report);

}  // namespace trace
