#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/footprint.h>
#include <capstan/plugin/guard.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "setup/job.h"
#include "shard/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// Calls one phase of every strategy with its name around errors.
template <class Phase>
void each_strategy(const Job& job, const std::string& name, const Phase& phase) {
  for (const auto& made : job.strategies) plugin::guard(made.name, name, [&] { phase(*made.object); });
}

using GroupAlong = std::function<std::shared_ptr<comm::Group>(const std::vector<layout::Axis>&)>;

/// The model's units after structure: logical shapes, nothing is placed or allocated.
std::vector<std::unique_ptr<nn::Unit>> build_units(const Job& job);
/// The model's units after structure and placement: records say what each rank holds, and nothing is allocated.
std::vector<std::unique_ptr<nn::Unit>> assemble(const Job& job, const GroupAlong& group);
std::vector<nn::Unit*> pointers(const std::vector<std::unique_ptr<nn::Unit>>& units);
/// The records of all units, each once.
std::vector<const layout::Param*> records_of(const std::vector<nn::Unit*>& units);
/// The axes on which gradients stay local; Error where trainable records disagree.
std::vector<layout::Axis> common_local_axes(const std::vector<std::unique_ptr<nn::Unit>>& units);

/// What the job asks of the shard engine.
shard::EngineOptions engine_options(const Job& job, c10::Device device);
/// What is known of the assembled model before it has memory.
struct Prediction {
  std::vector<layout::Footprint> footprints;
  bool activations = false;      ///< the footprints at work are those of a micro-step's peak
  std::string activations_note;  ///< see Job
  std::string changes;           ///< for people: what strategies made of the model, a line each; may be empty
};

/// What this rank will allocate for parameters, gradients, optimizer state and collectives, and what strategies say.
/// `states`: optimizer state tensors a parameter. No rank is asked.
Prediction predict(const Job& job, std::size_t states);

}  // namespace setup
CAPSTAN_END_NAMESPACE
