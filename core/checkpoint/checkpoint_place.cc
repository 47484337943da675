#include "checkpoint/checkpoint_place.h"

namespace capstan::checkpoint {

namespace fs = std::filesystem;

bool is_checkpoint(const fs::path& path) { return fs::exists(path / "manifest.json"); }

bool is_latest(const fs::path& path) { return path.filename() == "latest" && fs::is_regular_file(path); }

fs::path folder_at(const fs::path& path) {
  if (is_latest(path)) return path.parent_path();
  return fs::is_directory(path / "checkpoints") ? path / "checkpoints" : path;
}

}  // namespace capstan::checkpoint
