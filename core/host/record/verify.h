#pragma once
#include <capstan/base/export.h>
#include <capstan/record/checkpoints.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include "record/manifest.h"

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// The folder's manifest. Throws Error that names the folder or manifest.json, and says if it is an unfinished save.
Manifest open_manifest(const std::filesystem::path& folder);
/// Adds a fault for each file that does not exist or has another length than when it was saved. Throws FileError for
/// one that cannot be read, as open_manifest() does: that says nothing about the checkpoint.
void check_files(const std::filesystem::path& folder, const Manifest& manifest, Diagnostics& faults);
/// Throws Error when the file's header and the manifest differ about the box.
void check_header(const MappedTensors& file, const std::string& name, const TensorEntry& tensor, const BoxEntry& entry);
/// Does this piece of a box's data (see hashed_bytes) match its hash?
bool is_intact(const MappedTensors& file, const std::string& name, const BoxEntry& entry, std::size_t piece);
/// The fault of a box that does not.
Error damaged(const MappedTensors& file, const std::string& key);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
