#pragma once
#include <capstan/base/export.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan/layout/file_tensor.h>
#include <capstan/layout/source.h>

#include <c10/core/ScalarType.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// Parameters from a Hugging Face model folder. Each fill reads only its box: a record fused with others in one
/// tensor, or transposed there, is read as a slice of the mapped file; one that stacks several tensors reads each.
/// Several threads may fill at once. `map` says where each record is; `file`: one file of the folder whose name is not
/// a model's, empty: the model's. Throws Error for a folder that holds no safetensors, and for a file that is none.
std::unique_ptr<layout::Source> open_folder(const std::filesystem::path& folder, const layout::FileMap& map,
                                            const std::string& file = {});

/// The way back: the tensors that `map` makes of these records, under their published names, in memory. Throws Error
/// for a record that it has no place for.
std::vector<NamedTensor> folder_tensors(const std::vector<const layout::Param*>& records, const layout::FileMap& map,
                                        layout::Source& values, c10::ScalarType dtype);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
