#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/checkpoint/safetensors.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// The folder's manifest. Throws Error that names the folder or manifest.json, and says so of an unfinished save.
Manifest open_manifest(const std::filesystem::path& folder);
/// Adds a fault for each file that is not there or has not the length that it had. Throws FileError for one that cannot
/// be looked at, as open_manifest() does: that says nothing of the checkpoint.
void check_files(const std::filesystem::path& folder, const Manifest& manifest, Diagnostics& faults);
/// Throws Error when the file's header does not have the box as the manifest does.
void check_header(const SafetensorsFile& file, const std::string& name, const TensorEntry& tensor,
                  const BoxEntry& entry);
/// Does this piece of a box's data (see hashed_bytes) have its hash?
bool is_intact(const SafetensorsFile& file, const std::string& name, const BoxEntry& entry, std::size_t piece);
/// What is said of a box that has not.
Error damaged(const SafetensorsFile& file, const std::string& key);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
