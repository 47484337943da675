#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/optimizer_rule.h>

#include <array>
#include <memory>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// AdamW's options, as [optimizer] has them.
struct AdamWOptions {
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool decays_all = false;  ///< vectors too, which Param::decay leaves out
};

/// Core's own rule (Loshchilov & Hutter 2019, algorithm 2), by kernels of core's on GPUs and for float32 in host
/// memory, else by ATen's. Its two states are the averages of gradients, "exp_avg", and of their squares, "exp_avg_sq".
/// It is fused and elementwise and keeps nothing itself, so that another rule may hold one and call it.
std::unique_ptr<OptimizerRule> adamw(const AdamWOptions& options);

}  // namespace strategy
CAPSTAN_END_NAMESPACE
