#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <string>
#include <vector>

#include "session/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace execution {

/// Finds weights that would never learn. After the first step's backward each trained weight must have had a gradient
/// on each rank, or on one of the ranks whose gradients are added to that rank's. A weight of experts is excused where
/// no token reached any of its experts. One object a run.
class GradientCheck {
 public:
  /// `session` must outlive it.
  explicit GradientCheck(const session::Session& session) : session_(session), mesh_(session.job->topology.mesh) {}
  /// Throws Error, the same on all ranks, that names the records, the units that they are moved with, and the ranks.
  /// If all is well it says so in the log, with the experts that no token reached. `expert_tokens`: what each computed,
  /// [layers, experts] float64 on the CPU, over all ranks; empty: no experts. Collective over the world; does nothing
  /// when it is called again.
  void run(const at::Tensor& expert_tokens);
  bool is_done() const { return done_; }

 private:
  // A trained weight that would never learn, and on which ranks.
  struct Missing {
    std::size_t weight;  // in the engine's order
    std::vector<int> ranks;
  };
  std::vector<Missing> find(const std::vector<std::string>& ranks, const at::Tensor& expert_tokens) const;
  std::int64_t expert_layer(const nn::Weight& weight) const;
  bool had_tokens(const nn::Weight& weight, int rank, const at::Tensor& expert_tokens) const;
  [[noreturn]] void refuse(const std::vector<Missing>& missing) const;

  const session::Session& session_;
  const layout::Mesh& mesh_;
  std::vector<shard::Reached> weights_;  ///< in the engine's order
  bool done_ = false;
};

}  // namespace execution
CAPSTAN_END_NAMESPACE
