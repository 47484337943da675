#pragma once
#include <capstan/base/export.h>

#include <filesystem>

CAPSTAN_BEGIN_NAMESPACE

/// Copies a file, or a folder with all that is in it, as what is made anew: with the rights that this process gives
/// files, not with the original's. Throws Error as read_file and write_file do.
void copy_over(const std::filesystem::path& from, const std::filesystem::path& to);

CAPSTAN_END_NAMESPACE
