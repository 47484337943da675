#pragma once
#include <capstan/base/export.h>
#include <capstan/optimizer/rule.h>

#include <array>
#include <memory>

CAPSTAN_BEGIN_NAMESPACE
namespace optimizer {

struct AdamWOptions {
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
};

/// AdamW (Loshchilov & Hutter 2019, algorithm 2), by kernels of its own on GPUs and for float32 in host memory, else by
/// ATen's. The plugin is linked with capstan::adamw. Its two states are the averages of gradients, "exp_avg", and of
/// their squares, "exp_avg_sq". It is fused, its grain is an element, and it keeps nothing itself: another rule may
/// hold one and give it the slices that it does not update otherwise, whole records' too.
std::unique_ptr<Rule> adamw(const AdamWOptions& options);

}  // namespace optimizer
CAPSTAN_END_NAMESPACE
