#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE
namespace adamw {

/// What one AdamW update (Loshchilov & Hutter 2019, algorithm 2) does to every element.
struct Step {
  double lr = 0;
  double beta1 = 0;
  double beta2 = 0;
  double decay = 0;
  double eps = 0;
  double count = 1;      ///< updates made, this one included
  float grad_scale = 1;  ///< gradients are divided by it
};

/// Updates `master`, `exp_avg` and `exp_avg_sq` ([n] float32 in host memory, contiguous) from `grad` ([n] float32,
/// bfloat16 or half; only read), and writes the new master to `copy` ([n] bfloat16 or half; or undefined), all in one
/// pass over memory, on ATen's intra-op threads. Elements are independent and rounded alike at any index and on any
/// processor.
///
/// It has its own kernel because an offloaded update is bound by the host's memory: ATen's fused AdamW writes the
/// scaled gradient back and reads float32 gradients only, and the copy takes a second pass with read-for-ownership.
/// Traffic a parameter is 30 bytes (28 with a 16-bit gradient) instead of 32 and 8. Two ranks with 16 cores and one
/// H200 each update 6.5e9 parameters a second together (7.0e9 with bfloat16 gradients), with ATen's and the cast 5.1e9
/// (tools/bench/offload.py).
/// Operations and their order are those of ATen's vectorised kernel, fused products and sums included: results are
/// bit-equal to at::_fused_adamw_ where that runs on AVX2 or AVX-512 (whole vectors; its tail rounds otherwise).
void update_on_host(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
                    const at::Tensor& grad, const at::Tensor& copy, const Step& step);

}  // namespace adamw
CAPSTAN_END_NAMESPACE
