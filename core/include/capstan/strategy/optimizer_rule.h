#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/weight.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// What an optimizer rule updates: this rank's part of one weight. All tensors are 1-dimensional, have the same length
/// n and are on one device (the host's where optimizer state is offloaded). Padding beyond the parameters is zero in
/// all of them, and a rule must keep it so: the update of a zero parameter with a zero gradient is zero.
struct Slice {
  const nn::Weight* weight = nullptr;
  at::Tensor master;              ///< [n] what is updated, in the masters' dtype
  at::Tensor grad;                ///< [n] summed over all data ranks, times the loss scale; same dtype
  std::vector<at::Tensor> state;  ///< [n] each, zero before the first update; as many as the rule asked for
  at::Tensor copy = {};           ///< [n] compute dtype, a copy of the updated master; undefined: none
};

/// One optimizer step. The tensors are 0-dim float32 on the slices' device, so that the host need not wait for it.
struct Update {
  double lr = 0;
  at::Tensor count;       ///< updates done, this one included, skipped ones not
  at::Tensor grad_scale;  ///< gradients are to be divided by it: clipping and loss scale together
  at::Tensor skip;        ///< 1: a gradient was not finite, so nothing may change; else 0
};

/// How gradients update parameters. Core's own is AdamW; a strategy that claims optimizer_rule_point provides another.
/// Called on the training thread or on the engine's update thread, never on both at once.
class OptimizerRule {
 public:
  virtual ~OptimizerRule();
  /// The number of state tensors for each slice, in the masters' dtype. `check` calls it too, to predict the memory of
  /// optimizer state.
  virtual std::size_t states() const = 0;
  /// The i-th one's name in a checkpoint. A rule that changes its names cannot resume from earlier checkpoints.
  virtual std::string state_name(std::size_t i) const;
  /// Each element's update depends only on that element: a slice may then be updated in parts, which stay in the
  /// processor's cache for the next pass over them.
  virtual bool is_elementwise() const { return false; }
  /// It writes Slice::copy itself, in the same pass, and reads gradients of other dtypes than the masters'. Other rules
  /// get no copy to write, and gradients in the masters' dtype.
  virtual bool is_fused() const { return false; }
  /// Updates these slices, in place. An offloaded step calls it once a bucket, others once for all.
  virtual void apply(std::vector<Slice>& slices, const Update& update) = 0;
};

}  // namespace strategy
CAPSTAN_END_NAMESPACE
