#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/source.h>
#include <capstan/nn/model.h>

#include <filesystem>
#include <string>
#include <vector>

#include "assembly/plugins.h"

CAPSTAN_BEGIN_NAMESPACE
namespace session {

/// Adapters of all units, in order.
std::vector<const nn::Adapter*> adapters_of(const std::vector<nn::Unit*>& units);

/// Why a PEFT folder cannot hold what was trained; empty: it can.
std::string not_peft(const assembly::Plugins& plugins, const std::vector<nn::Unit*>& units);

/// Writes the adapters, and what was trained beside them, as a folder that peft loads, by this rank alone: it appears
/// at its name when it is complete, and one that stands there is replaced. Returns "adapter for peft: runs/a/adapter
/// (rank 8, 1,234 parameters)".
std::string write_adapter_folder(const assembly::Plugins& plugins, const std::vector<nn::Unit*>& units,
                                 layout::Source& values, const std::filesystem::path& folder);

}  // namespace session
CAPSTAN_END_NAMESPACE
