#include "job/weights.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <utility>

#include "checkpoint/checkpoint.h"
#include "hf/door.h"
#include "job/resume.h"

namespace capstan::job {
namespace {

namespace fs = std::filesystem;

bool has_boxes(const fs::path& folder) { return is_there(folder / "manifest.json"); }

bool has_model(const fs::path& folder) {
  return is_there(folder / "model.safetensors") || is_there(folder / "model.safetensors.index.json");
}

// A checkpoint's records with the reader that they come from.
struct SavedWeights {
  explicit SavedWeights(const fs::path& folder) : reader(folder) {}
  checkpoint::Reader reader;
  checkpoint::RecordSource records{reader};
};

std::shared_ptr<checkpoint::RecordSource> open_records(const fs::path& folder) {
  const auto saved = std::make_shared<SavedWeights>(folder);
  return {saved, &saved->records};
}

}  // namespace

fs::path find_weights(const fs::path& path) {
  if (has_boxes(path) || has_model(path)) return path;
  for (const auto* inside : {"weights", "model"}) {
    if (has_boxes(path / inside) || has_model(path / inside)) return path / inside;
  }
  if (const auto newest = checkpoint::newest(checkpoint_folder(path), checkpoint::Depth::structure); newest.path)
    return *newest.path;
  throw Error(is_there(path) ? "this folder holds no weights" : "there is no such folder",
              "name a run's folder that has weights/ or checkpoints/, a folder with manifest.json, or a Hugging Face "
              "model folder with "
              "model.safetensors",
              path.string());
}

std::shared_ptr<layout::Source> open_weights(const fs::path& folder, const layout::FileMap& map,
                                             const std::vector<const layout::Param*>& records) {
  Diagnostics diagnostics;
  std::shared_ptr<layout::Source> opened;
  if (has_boxes(folder)) {
    auto source = open_records(folder);
    source->check(records, diagnostics);
    opened = std::move(source);
  } else {
    auto source = hf::door().open({folder, map});
    source->check(records, diagnostics);
    opened = std::move(source);
  }
  diagnostics.throw_if_any();
  return opened;
}

fs::path folder_of_boxes(const fs::path& run) { return has_boxes(run / "weights") ? run / "weights" : run; }

std::shared_ptr<layout::Source> open_boxes(const fs::path& run) { return open_records(folder_of_boxes(run)); }

}  // namespace capstan::job
