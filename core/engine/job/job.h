#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/collate.h"
#include "data/fit.h"
#include "job/predict.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// A configuration that was read and judged: all stages that need no memory of the model's size and touch no GPU. Each
/// is complete and stays as it is. `check` and `run` come here by the same way; `run` makes a Session of it.
struct Job {
  setup::Configuration config;
  Plugins plugins;
  Topology topology;
  Samples samples;
  std::shared_ptr<const AssembledModel> model;
  std::vector<FrozenModel> frozen;  ///< the objective's
  Prediction prediction;
  std::map<std::string, std::string> folders = {};  ///< frozen_folders(), where checkpoints may be

  std::uint64_t seed() const { return static_cast<std::uint64_t>(config.run->seed); }
  /// What every sample must fit into.
  data::ModelBounds bounds() const { return {plugins.model_facts.vocab_size, plugins.model_facts.max_positions}; }
  /// How rows of samples are filled up.
  data::Padding padding() const;
  /// How many positions a row of packed samples has, unless one sample needs more.
  std::int64_t row_capacity() const { return std::max<std::int64_t>(1, samples.length - 1); }
  /// Every table of the resolved configuration, in the order data, tokenizer, model, strategies, optimizer, train,
  /// monitors.
  std::vector<config::ResolvedTable> tables() const;
  /// The tables for people (option, value, origin), then arithmetic().
  std::string text() const;
  /// Model, mesh, batch and run length, a line each, with their arithmetic.
  std::string arithmetic() const;
  /// The model's parameters, its floating-point operations and what strategies change, a line each. `brief`: without
  /// the operations, and one line where a strategy says the same of many layers.
  std::string model_summary(bool brief = false) const;
  /// What is predicted of a rank's memory: the table of its parts, and notes, a line each.
  std::string memory_summary() const;
  /// What stands in for files that are not there yet, a line each; empty where nothing is missing.
  std::string lacking() const;
  /// How the ranks share the model and the batch: the mesh, what is left over for data parallelism, the global batch.
  /// `brief`: of the mesh nothing where it has data parallelism alone, and of nodes nothing where there is one.
  std::string ranks_summary(bool brief = false) const;
};

/// Goes through the stages, each made from those before it, of a request whose options have values (settle() gives them
/// to those that say "auto"). Faults of any kind are added to `faults`: a stage that they make impossible is left out,
/// and those that do not need it say what they find. Nothing where there are any. Throws Error where continuing would
/// only give misleading faults (a missing or broken file, a plugin that does not load).
std::optional<Job> prepare(const setup::JobRequest& request, plugin::Host& host, Diagnostics& faults);

/// What `export` needs: a model's units without a mesh, and what its folder is written from.
struct ModelJob {
  setup::Configuration config;
  Plugins plugins;
  tokenizer::Opened tokenizer;
  BuiltModel model;  ///< as strategies' structure() has changed it
};
std::optional<ModelJob> prepare_model(const setup::JobRequest& request, plugin::Host& host, Diagnostics& faults);

}  // namespace job
CAPSTAN_END_NAMESPACE
