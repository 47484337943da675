#pragma once
#include <capstan/base/export.h>

#include <string_view>

CAPSTAN_BEGIN_NAMESPACE
namespace monitor {

/// Does a run, or one of Capstan's monitors, give this name to a file or a folder in the run's folder: config.toml,
/// metrics.jsonl, checkpoints, predictions-eval.json, traces, …?
bool is_name_of_run(std::string_view name);

}  // namespace monitor
CAPSTAN_END_NAMESPACE
