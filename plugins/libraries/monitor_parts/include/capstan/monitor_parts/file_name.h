#pragma once
#include <capstan/base/export.h>

#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE
namespace monitor {

/// For an option that names a file which a monitor writes into the run's folder: what is wrong with the name, such as
/// "is a path"; empty: nothing. Such a file has a bare name, and none that a run gives to a file of its own
/// (capstan/monitor/run_files.h).
///
///     if (const auto fault = monitor::file_name_fault(options->file); !fault.empty())
///       throw Error(cat(options.name(&MyOptions::file), " ", fault), monitor::file_name_fix,
///       options.where(&MyOptions::file));
std::string file_name_fault(std::string_view name);
inline constexpr const char* file_name_fix = "give the name of a file in the run's folder, such as \"table.csv\"";

}  // namespace monitor
CAPSTAN_END_NAMESPACE
