#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <string>
#include <vector>

#include "step/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// Finds weights that would never learn. After the first step's backward each trained weight must have had a gradient
/// on each rank, or on one of the ranks whose gradients are added to that rank's. A weight of experts is excused where
/// no token reached any of its experts. Ports that must act must have been asked. One object a run.
class GradientCheck {
 public:
  /// `session` must outlive it.
  explicit GradientCheck(const Session& session);
  /// Throws Error, the same on all ranks, that names the records, the units that they are moved with, and the ranks; or
  /// the ports that no rank's forward asked, and who fills them.
  /// If all is well it says so in the log, with the experts that no token reached. `expert_tokens`: what each computed,
  /// [layers, experts] float64 on the CPU, over all ranks; empty: no experts. Collective over the world; does nothing
  /// when it is called again.
  void run(const at::Tensor& expert_tokens);
  bool is_done() const { return done_; }

 private:
  // A trained weight of the model, whichever rank has it.
  struct Trained {
    const nn::Weight* weight;
    std::string joined;         // the units that it is moved with, or its own where another rank has it
    std::int64_t expert_layer;  // counted in the model; -1: it is none of a layer of experts
  };
  // One that would never learn, and on which ranks.
  struct Missing {
    std::size_t weight;  // in weights_
    std::vector<int> ranks;
  };
  void refuse_passed_over() const;
  std::string list_weights();
  std::vector<Missing> find(const std::vector<std::string>& ranks, const at::Tensor& expert_tokens) const;
  bool had_tokens(const Trained& trained, int rank, const at::Tensor& expert_tokens) const;
  [[noreturn]] void refuse(const std::vector<Missing>& missing) const;

  const Session& session_;
  const layout::Mesh& mesh_;
  std::vector<Trained> weights_;  ///< the whole model's, in its order
  bool done_ = false;
};

}  // namespace step
CAPSTAN_END_NAMESPACE
