#pragma once
#include <filesystem>

namespace capstan::checkpoint {

/// All throw FileError for a path that cannot be checked: it may exist.

/// Is it the folder of a checkpoint, or of final weights?
bool is_checkpoint(const std::filesystem::path& path);
/// Is it the file `latest`, which names its folder's last save?
bool is_latest(const std::filesystem::path& path);
/// The folder of checkpoints that a path from a user means: the one inside a run's folder, the one of `latest`, or the
/// path itself.
std::filesystem::path folder_at(const std::filesystem::path& path);

}  // namespace capstan::checkpoint
