#include <capstan/base/text.h>

#include "base/disk_wait.h"
#include "checkpoint/checkpoint.h"
#include "record/manifest.h"
#include "record/verify.h"

namespace capstan::checkpoint {
namespace {

using layout::Box;

// The number of a box's element in row-major order.
std::int64_t index_of(const layout::Shape& shape, const std::vector<std::int64_t>& at) {
  std::int64_t index = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) index = index * shape[d] + at[d];
  return index;
}

}  // namespace

void Reader::read(const std::string& name, const Box& box, const at::Tensor& out) {
  const DiskWait at_disk("reading", path());
  const auto& tensor = entry(name);
  CAPSTAN_ASSERT(box.fits(tensor.shape) && out.is_contiguous() && out.numel() == box.numel());
  const auto target = out.view(box.size);
  std::int64_t filled = 0;
  for (const auto& saved : tensor.boxes) {
    const auto common = layout::intersect(box, saved.box);
    if (common.empty()) continue;
    const auto inside = layout::relative_to(saved.box, common);
    check(name, saved, inside);
    files_.at(saved.file)
        ->read(key_of(name, saved.box), inside, layout::view_of(target, layout::relative_to(box, common)));
    filled += common.numel();
  }
  CAPSTAN_ASSERT(filled == box.numel());
}

// Verifies the hashed pieces that hold the part, unless an earlier call did.
void Reader::check(const std::string& name, const BoxEntry& saved, const Box& inside) {
  const auto& tensor = entry(name);
  auto& file = files_[saved.file];
  if (!file) file = std::make_unique<SafetensorsFile>(path() / saved.file);
  auto& checked = checked_[key_of(name, saved.box)];
  if (checked.empty()) {
    check_header(*file, name, tensor, saved);
    checked.resize(saved.xxh64.size());
  }
  const auto item = dtype_bytes(tensor.dtype);
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

}  // namespace capstan::checkpoint
