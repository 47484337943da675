#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <cstdint>
#include <vector>

#include "step/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// What a step gave, over all ranks.
struct StepMetrics {
  double grad_norm = 0;       ///< before clipping, without the loss scale
  double loss_sum = 0;        ///< what is minimised, times the count that it is a mean over
  double auxiliary_loss = 0;  ///< mean over micro-steps
  double loss_scale = 1;
  bool skipped = false;         ///< a number was not finite, so nothing was updated
  std::vector<double> figures;  ///< strategies' and then the objective's, in their order
  at::Tensor expert_tokens;     ///< [layers, experts] float64 on the CPU: what each computed; empty: no experts
};

/// What a rank adds to a step's metrics; 0-dim float64 on the device, except for the last.
struct StepSums {
  at::Tensor squared_norm;  ///< this rank's gradients' sum of squares, times the loss scale's square
  at::Tensor loss, auxiliary;
  at::Tensor expert_tokens;  ///< [layers, experts]; undefined: no experts
  at::Tensor figures;        ///< [F, 2] float64: sums and counts, which every rank gives; undefined: none
};

/// A step's metrics on their way from the device: one float64 tensor, so that one all-reduce sums them over the ranks
/// and one copy brings them to the host, which need not wait. Where each is in it, only this class knows.
class StepNumbers {
 public:
  StepNumbers() = default;
  /// Which of its data coordinate's numbers a rank gives. Its norm and figures always count.
  struct Gives {
    bool losses = true;   ///< it computes the model's end
    bool experts = true;  ///< of the layers that it computes
  };
  /// This rank's numbers.
  StepNumbers(const StepSums& mine, Gives gives);
  /// Sums them over the ranks. Collective over the world.
  void sum(const session::Session& session);
  /// The norm becomes that of gradients without this loss scale, a 0-dim float64.
  void divide_norm_by(const at::Tensor& loss_scale);
  /// [2]: squared norm and loss sum.
  at::Tensor norm_and_loss() const;
  /// What the update did: 0-dim tensors on the device.
  void set_update(const at::Tensor& loss_scale, const at::Tensor& skip);
  /// The tensor that is copied to the host.
  const at::Tensor& tensor() const { return numbers_; }
  /// Reads a copy in host memory.
  StepMetrics read(const at::Tensor& host) const;
  /// The same from this one; waits for the device.
  StepMetrics read() const;

 private:
  at::Tensor numbers_;
  std::int64_t figures_ = 0;
  std::vector<std::int64_t> experts_;  // the shape of expert_tokens
};

/// What a step's experts computed as named numbers. `tokens` [layers, experts] float64 on the CPU, empty for a model
/// without experts. "expert_tokens_3": tokens of expert 3, summed over layers. "expert_load_max": the busiest expert of
/// any layer against that layer's mean; 1 when the load is even.
void add_expert_load(monitor::Values& values, const at::Tensor& tokens);

}  // namespace step
CAPSTAN_END_NAMESPACE
