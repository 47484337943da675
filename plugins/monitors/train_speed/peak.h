#pragma once
#include <optional>
#include <string>

namespace train_speed {

/// Floating-point operations a second that NVIDIA's data sheets give for dense matrix products of this precision
/// ("bf16", "fp16", "bf16_pure": 16-bit tensor cores; "fp32": without TF32), in units of 10^12. Nothing for GPUs that
/// are not listed, and for precisions that they lack. `gpu`: as NVML names it, "NVIDIA H200".
std::optional<double> peak_tflops(const std::string& gpu, const std::string& precision);

}  // namespace train_speed
