#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan/layout/source.h>

#include "base/disk_wait.h"

namespace capstan::checkpoint {

void SafetensorsFile::read(const std::string& name, const layout::Box& box, const at::Tensor& out) const {
  read(name, info(name).shape, box, out);
}

void SafetensorsFile::read(const std::string& name, const layout::Shape& shape, const layout::Box& box,
                           const at::Tensor& out) const {
  const DiskWait at_disk("reading", path());
  const auto& tensor = info(name);
  CAPSTAN_ASSERT(layout::numel(shape) == layout::numel(tensor.shape));
  CAPSTAN_ASSERT(box.fits(shape) && out.sizes() == at::IntArrayRef(box.size));
  if (box.empty()) return;
  if (!is_whole(tensor)) {
    throw Error(cat("tensor '", name, "' is cut off"), "the file is damaged: copy or download it again",
                path().string());
  }
  const at::NoGradGuard no_grad;
  // A mapped file is read-only; the tensor over it never leaves this function and is only read.
  auto* data = const_cast<std::byte*>(bytes(name));
  const auto dtype = torch_dtype(tensor.dtype);
  const auto item = dtype_bytes(tensor.dtype);
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(item) == 0) {
    out.copy_(layout::view_of(at::from_blob(data, shape, at::TensorOptions(dtype)), box));
    return;
  }
  // Headers of other writers need not end 8-aligned: then elements are read as rows of bytes, copied, reinterpreted.
  auto as_bytes = shape;
  as_bytes.push_back(item);
  const auto rows = layout::view_of(at::from_blob(data, as_bytes, at::TensorOptions(at::kByte)), box);
  out.copy_(rows.clone(at::MemoryFormat::Contiguous).view(dtype).squeeze(-1));
}

}  // namespace capstan::checkpoint
