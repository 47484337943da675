#pragma once
#include <capstan/base/export.h>

#include <filesystem>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// Where a folder is written until it is complete: next to it, as "NAME.tmp".
std::filesystem::path temporary_of(const std::filesystem::path& folder);
/// Makes that folder, empty.
std::filesystem::path make_temporary(const std::filesystem::path& folder);
/// Gives the complete folder its name, and the place of one that stands there.
void put_in_place(const std::filesystem::path& folder);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
