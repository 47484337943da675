#include <capstan/base/text.h>
#include <capstan/checkpoint/boxes.h>

#include "checkpoint/dtype.h"
#include "checkpoint/manifest.h"
#include "checkpoint/xxh64.h"

namespace capstan::checkpoint {

namespace fs = std::filesystem;
using layout::Box;
using layout::Param;

struct BoxesSource::Manifest {
  Records records;
  BoxesInfo info;
};

namespace {

Error other_shape(const std::string& where, const Param& param, const RecordEntry& record) {
  return Error(cat("record '", param.name, "' has shape ", layout::shape_text(record.shape), ", the model's is ",
                   layout::shape_text(param.shape)),
               "load these weights into a model of the sizes they were saved with", where);
}

}  // namespace

BoxesSource::BoxesSource(fs::path folder) : folder_(std::move(folder)) {
  const auto path = folder_ / "manifest.json";
  if (!fs::exists(path)) {
    throw Error(fs::is_directory(folder_) ? "it holds no manifest.json" : "no such folder",
                "name a folder of weights that a run saved; one that ends in .tmp was never finished",
                folder_.string());
  }
  auto manifest = std::make_unique<Manifest>();
  manifest->records = parse_manifest(path, manifest->info);
  manifest_ = std::move(manifest);
}

BoxesSource::~BoxesSource() = default;

const BoxesInfo& BoxesSource::info() const { return manifest_->info; }

bool BoxesSource::has(const Param& param) const { return manifest_->records.contains(param.name); }

void BoxesSource::check(const std::vector<const Param*>& params, Diagnostics& diagnostics) const {
  const auto where = (folder_ / "manifest.json").string();
  std::set<std::string> files;
  for (const auto* param : params) {
    const auto found = manifest_->records.find(param->name);
    if (found == manifest_->records.end()) {
      diagnostics.add(where, cat("it has no record '", param->name, "'"), "load weights of the same model");
      continue;
    }
    if (found->second.shape != param->shape) {
      diagnostics.add(other_shape(where, *param, found->second).diagnostics().front());
    }
    for (const auto& entry : found->second.boxes) files.insert(entry.file);
  }
  for (const auto& name : files) {
    if (!fs::exists(folder_ / name)) {
      diagnostics.add(where, cat("names '", name, "', which is not there"),
                      "copy the folder again, with all its files");
    }
  }
}

const SafetensorsFile& BoxesSource::file(const std::string& name) {
  auto& file = files_[name];
  if (!file) file = std::make_unique<SafetensorsFile>(folder_ / name);
  return *file;
}

const SafetensorsFile& BoxesSource::verified(const std::string& record, std::size_t index) {
  const auto& expected = manifest_->records.at(record);
  const auto& entry = expected.boxes[index];
  const auto& holder = file(entry.file);
  if (verified_.contains(entry.key)) return holder;
  const auto& info = holder.info(entry.key);
  if (info.shape != entry.box.size || info.dtype != expected.dtype) {
    throw Error(cat("'", entry.key, "' is ", dtype_name(info.dtype), " ", layout::shape_text(info.shape),
                    ", the manifest says ", dtype_name(expected.dtype), " ", layout::shape_text(entry.box.size)),
                "the files are not of one save: copy the folder again", holder.path().string());
  }
  const auto hash = xxh64_text(holder.bytes(entry.key), info.end - info.begin);
  if (hash != entry.xxh64) {
    throw Error(cat("the data of '", entry.key, "' has hash ", hash, ", the manifest says ", entry.xxh64),
                "it was damaged or changed: copy it again, or load other weights", holder.path().string());
  }
  verified_.insert(entry.key);
  return holder;
}

void BoxesSource::fill(const Param& param, const Box& box, const at::Tensor& out) {
  const auto where = (folder_ / "manifest.json").string();
  const auto found = manifest_->records.find(param.name);
  if (found == manifest_->records.end()) throw Error(cat("it has no record '", param.name, "'"), {}, where);
  const auto& record = found->second;
  if (record.shape != param.shape) throw other_shape(where, param, record);
  CAPSTAN_ASSERT(box.fits(param.shape) && out.is_contiguous() && out.numel() == box.numel());
  const auto target = out.view(box.size);
  std::int64_t filled = 0;
  for (std::size_t i = 0; i < record.boxes.size(); ++i) {
    const auto& saved = record.boxes[i];
    Box common = intersect(box, saved.box);
    if (common.empty()) continue;
    auto part = target;
    for (std::size_t d = 0; d < box.size.size(); ++d) {
      part = part.narrow(static_cast<std::int64_t>(d), common.offset[d] - box.offset[d], common.size[d]);
      common.offset[d] -= saved.box.offset[d];
    }
    verified(param.name, i).read(saved.key, common, part);
    filled += common.numel();
  }
  CAPSTAN_ASSERT(filled == box.numel());
}

}  // namespace capstan::checkpoint
