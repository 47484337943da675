#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "checkpoint/commit_point.h"

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// What rank 0 does to folders. Errors name the folder. No function here is a collective.

/// "step-00000100.tmp-4711.0" next to "step-00000100".
std::filesystem::path temporary_of(const std::filesystem::path& target, const std::string& attempt);
/// Removes what earlier attempts left next to `target` for the same or any other step, and restores the name of a
/// checkpoint whose replacement was never committed. What cannot be removed is logged.
void sweep(const std::filesystem::path& target);
/// Makes an empty folder, and its parents.
void make_empty(const std::filesystem::path& folder);
/// Throws DiskFull when the file system certainly has no room for `bytes` bytes.
void check_space(const std::filesystem::path& folder, std::int64_t bytes);
/// Gives the folder its name, durably. An existing one is renamed first and removed afterwards.
void rename_into_place(const std::filesystem::path& temporary, const std::filesystem::path& target,
                       const AtPoint& at_point);
/// Removes committed checkpoints that retention does not keep. `newest` is always kept. Failures are logged.
void apply_retention(const std::filesystem::path& newest, const Keep& keep, const AtPoint& at_point);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
