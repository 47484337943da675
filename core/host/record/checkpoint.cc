#include <capstan/base/text.h>
#include <capstan/record/checkpoints.h>

#include "record/manifest.h"
#include "record/verify.h"

namespace capstan::checkpoint {

Checkpoint::Checkpoint(std::filesystem::path path)
    : path_(std::move(path)), manifest_(std::make_shared<const Manifest>(open_manifest(path_))) {
  Diagnostics faults;
  check_files(path_, *manifest_, faults);
  faults.throw_if_any();
}

const Meta& Checkpoint::meta() const { return manifest_->meta; }

const std::string& Checkpoint::section(const std::string& name) const {
  const auto found = meta().sections.find(name);
  if (found != meta().sections.end()) return found->second;
  throw Error(cat("it has no section '", name, "'"), {}, (path_ / "manifest.json").string());
}

std::vector<std::string> Checkpoint::tensors(const std::string& prefix) const {
  std::vector<std::string> out;
  for (const auto& item : manifest_->contents.tensors) {
    if (item.first.starts_with(prefix)) out.push_back(item.first);
  }
  return out;
}

bool Checkpoint::has(const std::string& tensor) const { return manifest_->contents.tensors.contains(tensor); }
const layout::Shape& Checkpoint::shape(const std::string& tensor) const { return entry(tensor).shape; }
Dtype Checkpoint::dtype(const std::string& tensor) const { return entry(tensor).dtype; }

const TensorEntry& Checkpoint::entry(const std::string& tensor) const {
  const auto found = manifest_->contents.tensors.find(tensor);
  if (found != manifest_->contents.tensors.end()) return found->second;
  throw Error(cat("it has no tensor '", tensor, "'"), {}, (path_ / "manifest.json").string());
}

}  // namespace capstan::checkpoint
