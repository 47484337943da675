#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "job/plugin_loader.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// [data]: its options, and where samples are needed its plugin, with those of [[data.sources]] that it is made of.
void load_data(const setup::Configuration& config, bool needed, Loader& loader, Plugins& plugins, Diagnostics& faults);

/// The plugins whose splits are read from token caches of their own; none: `data` as a whole is.
std::vector<const DataSourceTable*> shared_tables(const Plugins& plugins);

/// data::sums_of_files of [data] and [[data.sources]], whose keys are "sources.1.train".
std::map<std::string, std::string> sums_of_files(const Plugins& plugins);

/// What is said of shares for evaluation, a line for each source that has one.
std::string text_of_shares(const Plugins& plugins);

/// The longest sequence that options ask for.
struct AskedLength {
  std::int64_t tokens = 0;  ///< 0: whatever the model has
  std::string where;        ///< what in the configuration says so
};
AskedLength asked_length(const Plugins& plugins);

}  // namespace job
CAPSTAN_END_NAMESPACE
