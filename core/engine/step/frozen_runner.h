#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>
#include <capstan/nn/model.h>
#include <capstan/strategy/unit_hooks.h>

#include <memory>
#include <string>
#include <vector>

#include "step/unit_runner.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// Runs a model that is not trained, for other models' passes. After a forward that gave states its last units stay
/// gathered until release(), since another model's head needs its matrix.
class FrozenRunner {
 public:
  /// `plugin`: what made the units. They must outlive it.
  FrozenRunner(const std::vector<nn::Unit*>& units, std::string plugin);
  ~FrozenRunner();
  FrozenRunner(const FrozenRunner&) = delete;
  FrozenRunner& operator=(const FrozenRunner&) = delete;

  void add_hooks(std::size_t unit, std::unique_ptr<strategy::UnitHooks> hooks);
  /// What the batch's pass.output says. Without gradient.
  at::Tensor forward(const nn::Batch& batch);
  /// Its matrix is there, this rank's part of it, after a forward that gave states and until release().
  const nn::VocabularyHead& head() const;
  void release();

 private:
  class Held;
  UnitRunner runner_;
  std::vector<Held*> held_;  ///< the last unit's hooks, which the runner owns
};

}  // namespace step
CAPSTAN_END_NAMESPACE
