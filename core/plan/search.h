#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "assembly/predict.h"
#include "config/document.h"
#include "plan/gpu_fit.h"
#include "plan/step_time.h"

CAPSTAN_BEGIN_NAMESPACE
namespace plan {

/// One of the things that a strategy's plugin can do in a run.
struct Choice {
  std::string words;                   ///< "fsdp mode=full_shard"; empty: it is not used
  std::vector<std::string> overrides;  ///< that make it so
  std::optional<plugin::Saving::By> by;
};

/// Each installed strategy that offers savings, with its choices: as the configuration has it (or without it), without
/// it, and each saving. Strategies that offer none stay as they are.
std::vector<std::vector<Choice>> choices_of(plugin::Host& host, const config::Document& document);

/// A choice for each plugin.
struct LayoutChoice {
  std::string words;
  std::vector<std::string> overrides;
  bool recomputes = false;  ///< by a saving
  bool offloads = false;
};
std::vector<LayoutChoice> layouts_of(const std::vector<std::vector<Choice>>& choices);

/// What one layout with one micro-batch would take.
struct Tried {
  LayoutChoice layout;
  data::BatchShape batch;
  assembly::Prediction prediction;
  std::int64_t peak = 0;  ///< bytes of the GPU
  StepTime time = {};
  bool fits = false;  ///< peak and 5 % within the GPU's room, host memory within what is told
};

/// How the search asks.
struct Questions {
  /// Ranks with samples of their own; nothing where the layout is impossible.
  std::function<std::optional<std::int64_t>(const LayoutChoice&)> data_ranks;
  std::function<std::optional<Tried>(const LayoutChoice&, const data::BatchShape&)> predict;
};

/// Tries each possible layout with the largest micro-batch that fits: first those without recomputing and offloading,
/// then recomputing where a smaller micro-batch had to be taken, then offloading where nothing has fitted. What fits
/// comes first, the shortest predicted time first (without times the least memory); equal predictions appear once.
std::vector<Tried> search(const std::vector<LayoutChoice>& layouts, std::int64_t global_batch, const Questions& ask);

/// "train.global_batch=8", … of a batch.
std::vector<std::string> batch_overrides(const data::BatchShape& batch);

}  // namespace plan
CAPSTAN_END_NAMESPACE
