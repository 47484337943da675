#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include "base/disk_wait.h"
#include "checkpoint/safetensors_header.h"

namespace capstan::checkpoint {

SafetensorsFile::SafetensorsFile(std::filesystem::path path) : path_(std::move(path)), file_(path_) {
  Diagnostics faults;
  parse(faults);
  faults.throw_if_any();
}

SafetensorsFile::SafetensorsFile(std::filesystem::path path, Diagnostics& faults)
    : path_(std::move(path)), file_(path_) {
  parse(faults);
}

void SafetensorsFile::parse(Diagnostics& faults) {
  auto header = parse_header(path_.string(), file_.data(), file_.size(), faults);
  data_ = file_.data() + header.data_begin;
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
}

const TensorInfo& SafetensorsFile::info(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& item : tensors_) names.push_back(item.first);
  const auto nearest = nearest_name(name, names);
  throw Error(cat("it has no tensor '", name, "'"), nearest.empty() ? "" : cat("did you mean '", nearest, "'?"),
              path_.string());
}

const std::byte* SafetensorsFile::bytes(const std::string& name) const { return data_ + info(name).begin; }

void SafetensorsFile::read(const std::string& name, const layout::Box& box, const at::Tensor& out) const {
  read(name, info(name).shape, box, out);
}

void SafetensorsFile::read(const std::string& name, const layout::Shape& shape, const layout::Box& box,
                           const at::Tensor& out) const {
  const DiskWait at_disk("reading", path_);
  const auto& tensor = info(name);
  CAPSTAN_ASSERT(layout::numel(shape) == layout::numel(tensor.shape));
  CAPSTAN_ASSERT(box.fits(shape) && out.sizes() == at::IntArrayRef(box.size));
  if (box.empty()) return;
  if (static_cast<std::uint64_t>(data_ - file_.data()) + tensor.end > file_.size()) {
    throw Error(cat("tensor '", name, "' is cut off"), "the file is damaged: copy or download it again",
                path_.string());
  }
  const at::NoGradGuard no_grad;
  // A mapped file is read-only; the tensor over it never leaves this function and is only read.
  auto* data = const_cast<std::byte*>(data_ + tensor.begin);
  const auto item = static_cast<std::int64_t>(c10::elementSize(tensor.dtype));
  const auto slice = [&](at::Tensor whole) {
    for (std::size_t d = 0; d < shape.size(); ++d) {
      whole = whole.narrow(static_cast<std::int64_t>(d), box.offset[d], box.size[d]);
    }
    return whole;
  };
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(item) == 0) {
    out.copy_(slice(at::from_blob(data, shape, at::TensorOptions(tensor.dtype))));
    return;
  }
  // Headers of other writers need not end 8-aligned: then elements are read as rows of bytes, copied, reinterpreted.
  auto as_bytes = shape;
  as_bytes.push_back(item);
  const auto rows = slice(at::from_blob(data, as_bytes, at::TensorOptions(at::kByte)));
  out.copy_(rows.clone(at::MemoryFormat::Contiguous).view(tensor.dtype).squeeze(-1));
}

}  // namespace capstan::checkpoint
