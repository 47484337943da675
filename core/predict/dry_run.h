#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "job/frozen_models.h"
#include "job/samples.h"
#include "predict/step_work.h"
#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace predict {

/// Bytes of a GPU's memory at the peak of some work, besides what is always there.
struct AtPeak {
  std::int64_t gathered = 0;  ///< full copies of sharded parameters
  std::int64_t work = 0;      ///< activations, gradients on their way and temporaries
  std::string peak;           ///< "backward of blocks.3": where it is
  std::int64_t largest = 0;   ///< the largest tensor's
  std::int64_t bytes() const { return gathered + work; }
};

/// What a micro-step takes.
struct MicroStepMemory : AtPeak {
  std::int64_t kept = 0;                  ///< activations between forward and backward
  int in_flight = 1;                      ///< forwards whose backward is to come, at most
  plan::MicroStepWork computed;           ///< and what it moves, in all stages of the rank
  std::vector<plan::ActionWork> actions;  ///< the same by the stages' actions
  AtPeak evaluation;            ///< what the run's evaluations and answers take instead of it; nothing: it has none
  AtPeak held;                  ///< the same where they keep what they gather; nothing: they gather nothing
  std::string passed_over;      ///< ports that must act and were not asked (strategy/passed_over.h)
  std::string evaluation_note;  ///< why that is unknown; empty: it is not
};

/// What a dry run is made from.
struct DryRunOf {
  const setup::Configuration& config;
  const job::Plugins& plugins;
  const job::Topology& topology;
  const job::Samples& samples;
  const shard::EngineOptions& options;          ///< options of the engine that is counted
  const std::vector<job::FrozenModel>& frozen;  ///< the objective's models
};

/// A batch of this number of the longest samples, or this rank's columns of it, on the meta device: one for each of
/// strategy::Objective::choices().
std::vector<nn::Batch> longest_batches(const DryRunOf& what, const nn::SequenceCut& cut, std::int64_t samples,
                                       bool training);
/// How many times the sequences of the pass with the gradient the objective's others go over, rounded up.
std::int64_t sequences_of_others(const DryRunOf& what);
/// Prompts that are to be continued, of `columns` tokens each.
nn::Batch longest_prompts(std::int64_t rows, std::int64_t columns);

/// Assembles a model of its own, with strategies of its own, on the meta device; one for each position on pp, for which
/// `positions` has a rank.
///
/// Runs micro-batches of the longest samples on the meta device, with that rank's shapes, all strategies' hooks and an
/// executor that only counts, and watches what is allocated and computed; then forward of an evaluation batch, and of
/// its first answers' tokens, which is all for a job that does not train. Of a step's program it runs as much as has
/// the most micro-batches in flight twice. Answers for a GPU, by position. Throws what an operator without a shape rule
/// throws. No other thread may use the meta device meanwhile.
std::vector<MicroStepMemory> dry_run(const std::vector<DryRunOf>& positions);

}  // namespace predict
CAPSTAN_END_NAMESPACE
