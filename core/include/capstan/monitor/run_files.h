#pragma once
#include <capstan/base/export.h>

#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE
namespace monitor {

/// Does a run, or one of Capstan's monitors, give this name to a file or a folder in the run's folder: config.toml,
/// metrics.jsonl, checkpoints, predictions-eval.json, traces, …?
bool is_name_of_run(std::string_view name);

/// For an option that names a file which a monitor writes into the run's folder: what is wrong with the name, such as
/// "is a path"; empty: nothing. Such a file has a bare name, and none that is_name_of_run().
///
///     if (const auto fault = monitor::file_name_fault(options->file); !fault.empty())
///       throw Error(cat(options.name(&MyOptions::file), " ", fault), monitor::file_name_fix,
///       options.where(&MyOptions::file));
std::string file_name_fault(std::string_view name);
inline constexpr const char* file_name_fix = "give the name of a file in the run's folder, such as \"table.csv\"";

}  // namespace monitor
CAPSTAN_END_NAMESPACE
