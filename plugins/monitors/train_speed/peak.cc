#include "peak.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace train_speed {
namespace {

struct Peak {
  std::string_view name;  // a part of NVML's
  double half;            // fp16 on tensor cores
  double single;
  bool bf16 = true;
};

// The first that fits counts: longer names come before shorter ones.
constexpr std::array peaks{Peak{"GB200", 2500, 80},        Peak{"B200", 2250, 75},    Peak{"GH200", 989.4, 66.9},
                           Peak{"H200 NVL", 835.5, 60},    Peak{"H200", 989.4, 66.9}, Peak{"H100 PCIe", 756, 51.2},
                           Peak{"H100 NVL", 835.5, 60},    Peak{"H100", 989.4, 66.9}, Peak{"H800", 989.4, 66.9},
                           Peak{"A100", 311.9, 19.5},      Peak{"A800", 311.9, 19.5}, Peak{"A30", 165, 10.3},
                           Peak{"L40S", 362, 91.6},        Peak{"L40", 181, 90.5},    Peak{"A40", 149.7, 37.4},
                           Peak{"RTX A6000", 154.8, 38.7}, Peak{"A10", 125, 31.2},    Peak{"L4", 121, 30.3},
                           Peak{"V100", 125, 15.7, false}, Peak{"T4", 65, 8.1, false}};

}  // namespace

std::optional<double> peak_tflops(const std::string& gpu, const std::string& precision) {
  const auto* found = std::find_if(peaks.begin(), peaks.end(),
                                   [&](const Peak& peak) { return gpu.find(peak.name) != std::string::npos; });
  if (found == peaks.end()) return {};
  if (precision == "fp32") return found->single;
  if (precision == "fp16" || (precision.starts_with("bf16") && found->bf16)) return found->half;
  return {};
}

}  // namespace train_speed
