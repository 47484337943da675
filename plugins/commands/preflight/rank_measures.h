#pragma once

#include <c10/core/Device.h>

#include <filesystem>
#include <map>
#include <string>

#include "report.h"

namespace preflight {

/// TFLOP/s of a matrix product of `size` (0: 8192 in bf16 on a GPU, 1024 in float32 on a CPU), over `seconds`.
double measure_gemm(c10::Device device, std::int64_t size, double seconds);

/// GB/s between pinned host memory and a GPU; to_device_gbps and to_host_gbps.
void measure_copies(c10::Device device, RankMeasures& measures);

/// Writes `bytes` to a file in `folder`, syncs and removes it: write_gbps, free_bytes, and a failure as `problem`.
void measure_disk(const std::filesystem::path& folder, int rank, std::int64_t bytes, RankMeasures& measures);

/// "1980 of 1980 MHz, 41 °C", from NVML now; "throttled: too hot, …" if the GPU lowers its clocks for other reasons
/// than its power limit; "" without NVML.
std::string gpu_clocks(const std::string& uuid);

/// Capstan's and LibTorch's, and those of the CUDA libraries that this process has loaded.
std::map<std::string, std::string> library_versions(int driver_version);

/// NCCL's channels by transport, from its log with NCCL_DEBUG=INFO: "… via P2P/CUMEM" -> 1. Numbers of adapters are
/// left out.
std::map<std::string, int> links_of_log(const std::string& log);

}  // namespace preflight
