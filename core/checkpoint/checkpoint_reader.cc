#include <capstan/base/text.h>
#include <capstan/checkpoint/safetensors.h>

#include "base/disk_wait.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/dtype.h"
#include "checkpoint/manifest.h"
#include "checkpoint/verify.h"

namespace capstan::checkpoint {
namespace {

namespace fs = std::filesystem;
using layout::Box;

// The number of a box's element in row-major order.
std::int64_t index_of(const layout::Shape& shape, const std::vector<std::int64_t>& at) {
  std::int64_t index = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) index = index * shape[d] + at[d];
  return index;
}

// A slice of a tensor whose sizes are `from`'s.
at::Tensor cut(at::Tensor whole, const Box& from, const Box& part) {
  for (std::size_t d = 0; d < part.size.size(); ++d) {
    whole = whole.narrow(static_cast<std::int64_t>(d), part.offset[d] - from.offset[d], part.size[d]);
  }
  return whole;
}

Box relative(Box part, const Box& to) {
  for (std::size_t d = 0; d < part.offset.size(); ++d) part.offset[d] -= to.offset[d];
  return part;
}

}  // namespace

class Reader::Impl {
 public:
  explicit Impl(fs::path path) : path_(std::move(path)), manifest_(open_manifest(path_)) {
    Diagnostics faults;
    check_files(path_, manifest_, faults);
    faults.throw_if_any();
  }

  const fs::path& path() const { return path_; }
  const Meta& meta() const { return manifest_.meta; }
  const auto& tensors() const { return manifest_.contents.tensors; }

  const TensorEntry& entry(const std::string& name) const {
    const auto found = tensors().find(name);
    if (found != tensors().end()) return found->second;
    throw Error(cat("it has no tensor '", name, "'"), {}, (path_ / "manifest.json").string());
  }

  void read(const std::string& name, const Box& box, const at::Tensor& out) {
    const DiskWait at_disk("reading", path_);
    const auto& tensor = entry(name);
    CAPSTAN_ASSERT(box.fits(tensor.shape) && out.is_contiguous() && out.numel() == box.numel());
    const auto target = out.view(box.size);
    std::int64_t filled = 0;
    for (const auto& saved : tensor.boxes) {
      const auto common = layout::intersect(box, saved.box);
      if (common.empty()) continue;
      const auto key = key_of(name, saved.box);
      const auto inside = relative(common, saved.box);
      check(name, tensor, saved, inside);
      files_.at(saved.file)->read(key, inside, cut(target, box, common));
      filled += common.numel();
    }
    CAPSTAN_ASSERT(filled == box.numel());
  }

 private:
  // Verifies the hashed pieces that hold the part, unless an earlier call did.
  void check(const std::string& name, const TensorEntry& tensor, const BoxEntry& saved, const Box& inside) {
    auto& file = files_[saved.file];
    if (!file) file = std::make_unique<SafetensorsFile>(path_ / saved.file);
    auto& checked = checked_[key_of(name, saved.box)];
    if (checked.empty()) {
      check_header(*file, name, tensor, saved);
      checked.resize(saved.xxh64.size());
    }
    const auto item = static_cast<std::int64_t>(c10::elementSize(tensor.dtype));
    auto last = inside.offset;
    for (std::size_t d = 0; d < last.size(); ++d) last[d] += inside.size[d] - 1;
    const auto begin = index_of(saved.box.size, inside.offset) * item / hashed_bytes;
    const auto end = ((index_of(saved.box.size, last) + 1) * item + hashed_bytes - 1) / hashed_bytes;
    for (auto i = begin; i < end; ++i) {
      const auto piece = static_cast<std::size_t>(i);
      if (checked[piece]) continue;
      if (!is_intact(*file, name, saved, piece)) throw damaged(*file, key_of(name, saved.box));
      checked[piece] = true;
    }
  }

  fs::path path_;
  Manifest manifest_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, std::vector<bool>> checked_;  // by key: pieces whose hash is verified
};

Reader::Reader(fs::path path) : impl_(std::make_unique<Impl>(std::move(path))) {}
Reader::~Reader() = default;

const fs::path& Reader::path() const { return impl_->path(); }
const Meta& Reader::meta() const { return impl_->meta(); }
bool Reader::has_section(const std::string& name) const { return impl_->meta().sections.contains(name); }

const std::string& Reader::section(const std::string& name) const {
  const auto found = impl_->meta().sections.find(name);
  if (found != impl_->meta().sections.end()) return found->second;
  throw Error(cat("it has no section '", name, "'"), {}, (path() / "manifest.json").string());
}

std::vector<std::string> Reader::tensors(const std::string& prefix) const {
  std::vector<std::string> out;
  for (const auto& item : impl_->tensors()) {
    if (item.first.starts_with(prefix)) out.push_back(item.first);
  }
  return out;
}

bool Reader::has(const std::string& tensor) const { return impl_->tensors().contains(tensor); }
const layout::Shape& Reader::shape(const std::string& tensor) const { return impl_->entry(tensor).shape; }
c10::ScalarType Reader::dtype(const std::string& tensor) const { return impl_->entry(tensor).dtype; }
void Reader::read(const std::string& tensor, const Box& box, const at::Tensor& out) { impl_->read(tensor, box, out); }

}  // namespace capstan::checkpoint
