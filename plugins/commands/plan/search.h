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
};

/// Each installed strategy that offers savings, with its choices: as the configuration has it (or without it), without
/// it, and each saving. Strategies that offer none stay as they are. `in_file`: Predictor::strategies().
std::vector<std::vector<Choice>> choices_of(capstan::plugin::Host& host, const std::map<std::string, bool>& in_file);

/// A choice for each plugin.
struct LayoutChoice {
  std::string words;
  std::vector<std::string> overrides;
  bool recomputes = false;  ///< by a saving
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
/// then recomputing where a smaller micro-batch had to be taken, then offloading where nothing has fitted. What fits
/// comes first, the shortest predicted time first (without times the least memory); equal predictions appear once.
std::vector<Tried> search(const std::vector<LayoutChoice>& layouts, std::int64_t global_batch, const Questions& ask);

}  // namespace planning
