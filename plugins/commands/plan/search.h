#pragma once
#include <capstan/plan/predictor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace planning {

/// One of the things that a strategy's plugin can do in a run.
struct Choice {
  std::string words;                   ///< "fsdp mode=full_shard"; empty: it is not used
  std::vector<std::string> overrides;  ///< that make it so
  std::optional<capstan::plugin::Saving::By> by;
  bool divides = false;  ///< a saving by which ranks share a sample's tokens, or the model's units
  bool varies = false;   ///< … and which says more than its size
};

/// Each installed strategy that offers savings, with its choices: as the configuration has it (or without it), without
/// it, and each saving. Strategies that offer none stay as they are. `in_file`: Predictor::strategies().
std::vector<std::vector<Choice>> choices_of(capstan::plugin::Host& host, const std::map<std::string, bool>& in_file);

/// A choice for each plugin.
struct LayoutChoice {
  std::string words;
  std::vector<std::string> overrides;
  std::vector<std::size_t> choices = {};    ///< by plugin: which of its choices
  std::vector<std::size_t> undivided = {};  ///< the same, with the first in place of each that divides
  int divisions = 0;                        ///< choices that divide
  bool varies = false;                      ///< one of them does
  bool recomputes = false;                  ///< by a saving
  bool offloads = false;
};
std::vector<LayoutChoice> layouts_of(const std::vector<std::vector<Choice>>& choices);

/// How a step's samples are divided: global_batch = micro_batch x accumulation x data_ranks.
struct BatchSizes {
  std::int64_t micro_batch = 1;
  std::int64_t accumulation = 1;
  std::int64_t global_batch = 1;
  std::int64_t data_ranks = 1;
};

/// What one layout with one micro-batch would take.
struct Tried {
  LayoutChoice layout;
  BatchSizes batch;
  capstan::plan::Estimate estimate = {};
};
/// What makes it so: "strategy.fsdp.mode=full_shard", …, then "train.global_batch=8", ….
std::vector<std::string> overrides_of(const LayoutChoice& layout, const BatchSizes& batch);

/// How the search asks.
struct Questions {
  /// Ranks with samples of their own; nothing where the layout is impossible.
  std::function<std::optional<std::int64_t>(const LayoutChoice&)> data_ranks;
  /// Nothing where it cannot be made.
  std::function<std::optional<capstan::plan::Estimate>(const LayoutChoice&, const BatchSizes&)> predict;
};

/// Tries each possible layout with the largest micro-batch that fits: first those without recomputing and offloading,
/// then recomputing where a smaller micro-batch had to be taken, then offloading where nothing has fitted.
///
/// Layouts that divide micro-batches or units are many, and cost a prediction for each stage. Each size of a
/// single division is tried with the first choices of other plugins and with those of the best two layouts without.
/// Unless the best of these takes a tenth longer than a layout that divides nothing, single choices are changed from it
/// on as long as that makes it better. They get the micro-batch with the
/// shortest step.
///
/// What fits comes first, the shortest predicted time first (without times the least memory); equal predictions appear
/// once.
std::vector<Tried> search(const std::vector<LayoutChoice>& layouts, std::int64_t global_batch, const Questions& ask);

}  // namespace planning
