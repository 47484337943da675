#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/file_tensor.h>
#include <capstan/layout/source.h>

#include <filesystem>
#include <memory>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// The folder that holds the weights which `path` means: a folder of safetensors with a config.json, or of boxes with a
/// manifest.json, is itself; for a run's folder it is its final weights, or else its newest checkpoint. Throws Error
/// where there are none.
std::filesystem::path find_weights(const std::filesystem::path& path);

/// Opens what find_weights() gave, and finds it to hold these records; every fault at once.
std::shared_ptr<layout::Source> open_weights(const std::filesystem::path& folder, const layout::FileMap& map,
                                             const std::vector<const layout::Param*>& records);

/// The folder of boxes that a run's folder has, or the folder itself.
std::filesystem::path folder_of_boxes(const std::filesystem::path& run);
/// The trained weights of a run's folder, or of a folder of boxes; whether they are those of a model is not looked at.
std::shared_ptr<layout::Source> open_boxes(const std::filesystem::path& run);

}  // namespace job
CAPSTAN_END_NAMESPACE
