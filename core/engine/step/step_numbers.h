#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>
#include <capstan/strategy/step_hooks.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "step/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// What a step gives. First a rank's own numbers are added up on the device. Then they become one float64 tensor, so
/// that one all-reduce sums them over the ranks and one copy brings them to the host, which need not wait.
class StepNumbers {
 public:
  at::Tensor loss;       ///< 0-dim float64: the objective's terms, times the count that the loss is a mean over
  at::Tensor auxiliary;  ///< 0-dim float64: the model's auxiliary losses
  /// [layers of the whole model, experts] float64, zero for those that other ranks compute; undefined: no layer of this
  /// rank has experts.
  at::Tensor expert_tokens;
  at::Tensor objective_figures;           ///< [F] float64: the sums of the objective's figures
  std::vector<strategy::Figure> figures;  ///< strategies' and the objective's; one without a name is not shown
  /// [weights] float64: this rank's part of each weight's squared gradient norm, times the loss scale's square.
  at::Tensor norms;
  bool has_auxiliary = false;  ///< the model has an auxiliary loss
  bool gives_losses = true;    ///< the rank gives its data coordinate's losses: it computes the model's end
  bool gives_experts = true;   ///< the rank gives its data coordinate's counts of the layers that it computes

  /// Makes one tensor of the numbers above. Of these `norms` and the figures' names stay.
  void pack();
  /// Packs them and sums them over the ranks. Collective over the world.
  void sum(const Session& session);
  /// The norm becomes that of gradients without this loss scale, a 0-dim float64.
  void divide_norm_by(const at::Tensor& scale);
  /// [2]: squared norm and loss sum, on the device.
  at::Tensor norm_and_loss() const;
  /// What the update did: 0-dim tensors on the device.
  void set_update(const at::Tensor& scale, const at::Tensor& skip);

  /// Starts the copy to host memory. What follows is read from it, once it has ended.
  void start_copy();
  /// The same, and waits for the device.
  void read();
  /// The gradients' norm before clipping, without the loss scale.
  double grad_norm() const;
  /// What is minimised, times the count that it is a mean over.
  double loss_sum() const;
  /// The mean over micro-steps; none: the model has no auxiliary loss.
  std::optional<double> auxiliary_loss() const;
  double loss_scale() const;
  /// A number was not finite, so nothing was updated.
  bool skipped() const;
  /// Strategies' figures and then the objective's, by name.
  monitor::Values figure_values() const;
  /// [layers, experts] float64 on the CPU: the tokens that each expert computed; empty: no experts.
  at::Tensor tokens_by_expert() const;

 private:
  double number(std::int64_t place) const { return host_.const_data_ptr<double>()[place]; }

  at::Tensor numbers_;                 ///< on the device
  at::Tensor host_;                    ///< a copy in host memory
  std::vector<std::int64_t> experts_;  ///< the shape of expert_tokens
};

/// What a step's experts computed as named numbers. `tokens` [layers, experts] float64 on the CPU, empty for a model
/// without experts. "expert_tokens_3": tokens of expert 3, summed over layers. "expert_load_max": the busiest expert of
/// any layer against that layer's mean; 1 when the load is even.
void add_expert_load(monitor::Values& values, const at::Tensor& tokens);

}  // namespace step
CAPSTAN_END_NAMESPACE
