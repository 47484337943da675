#include <capstan/base/paths.h>
#include <capstan/record/checkpoints.h>

namespace capstan::checkpoint {

namespace fs = std::filesystem;

bool is_checkpoint(const fs::path& path) { return is_there(path / "manifest.json"); }

bool is_latest(const fs::path& path) { return path.filename() == "latest" && is_file(path); }

fs::path folder_at(const fs::path& path) {
  if (is_latest(path)) return path.parent_path();
  return is_folder(path / "checkpoints") ? path / "checkpoints" : path;
}

}  // namespace capstan::checkpoint
