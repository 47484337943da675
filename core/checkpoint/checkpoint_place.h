#pragma once
#include <filesystem>

namespace capstan::checkpoint {

/// All throw FileError for what cannot be looked at: it may be there.

/// Is it the folder of a checkpoint, or of weights alone?
bool is_checkpoint(const std::filesystem::path& path);
/// Is it the file that names the last save of the folder that it lies in?
bool is_latest(const std::filesystem::path& path);
/// Where the checkpoints lie to which a path leads that a person gave: the one that a run's folder has for them, that
/// of `latest`, or the path itself.
std::filesystem::path folder_at(const std::filesystem::path& path);

}  // namespace capstan::checkpoint
