#pragma once
#include <cstdint>

#include "plugins/commands/preflight/report.h"

namespace preflight {

constexpr std::int64_t mib = 1LL << 20U;

/// Four ranks on two nodes, none remarkable.
inline PreflightReport even() {
  PreflightReport report;
  for (int rank = 0; rank < 4; ++rank) {
    auto& one = report.ranks.emplace_back();
    one.host = "g" + std::to_string(1 + rank / 2);
    one.node = rank / 2;
    one.versions = {{"LibTorch", "2.11.0"}, {"driver", "CUDA 13.0"}};
    one.gemm_tflops = 600 + rank;
    one.free_bytes = 1e12;
    one.clock_s = 1000 + 0.01 * rank;
  }
  report.collectives.push_back({"all-reduce", 64 * mib, 4, 0.001, 100.5, {}});
  return report;
}

}  // namespace preflight
