#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>
#include <vector>

#include "hf/door.h"

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// Door::write.
WrittenModel write_folder(const ModelToWrite& model, layout::Source& values, const std::filesystem::path& folder,
                          const session::ExportForm& form, comm::Communicator& communicator);

/// Door::not_exportable.
std::string not_exportable(const job::Plugins& plugins, const std::vector<nn::Unit*>& units);

}  // namespace hf
CAPSTAN_END_NAMESPACE
