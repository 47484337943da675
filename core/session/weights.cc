#include "session/weights.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/folder_source.h>

#include <utility>

#include "checkpoint/checkpoint.h"
#include "session/resume.h"

namespace capstan::session {
namespace {

namespace fs = std::filesystem;

bool has_boxes(const fs::path& folder) { return is_there(folder / "manifest.json"); }

bool has_model(const fs::path& folder) {
  return is_there(folder / "model.safetensors") || is_there(folder / "model.safetensors.index.json");
}

// A checkpoint's records with the reader that they come from.
class SavedWeights : public layout::Source {
 public:
  explicit SavedWeights(const fs::path& folder) : reader_(folder), records_(reader_) {}
  void check(const std::vector<const layout::Param*>& records, Diagnostics& diagnostics) const {
    records_.check(records, diagnostics);
  }
  bool has(const layout::Param& param) const override { return records_.has(param); }
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override {
    records_.fill(param, box, out);
  }

 private:
  checkpoint::Reader reader_;
  checkpoint::RecordSource records_;
};

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

std::unique_ptr<layout::Source> open_weights(const fs::path& folder, const layout::FileMap& map,
                                             const std::vector<const layout::Param*>& records) {
  Diagnostics diagnostics;
  std::unique_ptr<layout::Source> opened;
  if (has_boxes(folder)) {
    auto source = std::make_unique<SavedWeights>(folder);
    source->check(records, diagnostics);
    opened = std::move(source);
  } else {
    auto source = std::make_unique<checkpoint::FolderSource>(folder, map);
    source->check(records, diagnostics);
    opened = std::move(source);
  }
  diagnostics.throw_if_any();
  return opened;
}

std::unique_ptr<layout::Source> open_boxes(const fs::path& run) {
  const auto inside = run / "weights";
  return std::make_unique<SavedWeights>(has_boxes(inside) ? inside : run);
}

}  // namespace capstan::session
