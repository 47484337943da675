#pragma once
#include <capstan/base/export.h>
#include <capstan/base/json.h>
#include <capstan/nn/model.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "job/job.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// What a checkpoint says of its run besides the configuration, for a run that resumes to compare itself with.
namespace sections {
inline constexpr const char* data = "data";              ///< what the samples are
inline constexpr const char* folders = "folders";        ///< frozen_folders()
inline constexpr const char* strategies = "strategies";  ///< strategies about more than the layout
inline constexpr const char* adapters = "adapters";      ///< adapters_section()
}  // namespace sections

/// The folders that a run which resumes reads once more, by the option that names each: of the objective's models, and
/// of frozen weights that its checkpoints do not have. Each with its record::fingerprint().
std::map<std::string, std::string> frozen_folders(const Job& job);
/// Does the strategy decide only where and when something is computed? Any other one may decide what.
bool is_of_layout(const strategy::Strategy& strategy);
/// The sections "data", "folders" and "strategies".
std::map<std::string, std::string> change_sections(const Job& job);

/// Adapters of all units, in order.
std::vector<const nn::Adapter*> adapters_of(const std::vector<nn::Unit*>& units);
/// What the adapter's product is multiplied with, which no tensor says.
Json scale_of(const nn::Adapter& adapter);
/// The section "adapters": each one's scale, by its module. Empty without adapters.
std::string adapters_section(const std::vector<nn::Unit*>& units);

/// The section "cursor": where the data stands after `steps_done` steps, in samples, and what makes their order.
std::string cursor_section(const Job& job, std::int64_t steps_done);

}  // namespace job
CAPSTAN_END_NAMESPACE
