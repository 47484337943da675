#include <capstan/base/error.h>
#include <capstan/layout/file_tensor.h>
#include <capstan/layout/source.h>

#include <algorithm>

namespace capstan::layout {

Source::~Source() = default;

at::Tensor view_of(at::Tensor tensor, const Box& box) {
  for (std::size_t d = 0; d < box.size.size(); ++d)
    tensor = tensor.narrow(static_cast<std::int64_t>(d), box.offset[d], box.size[d]);
  return tensor;
}

Box relative_to(const Box& outer, Box box) {
  for (std::size_t d = 0; d < box.offset.size(); ++d) box.offset[d] -= outer.offset[d];
  return box;
}

Shape FileTensor::fused_shape(const Shape& record) const {
  Shape out = record;
  if (part) {
    CAPSTAN_ASSERT(part->dim >= 0 && part->dim < static_cast<std::int64_t>(record.size()));
    auto& size = out[static_cast<std::size_t>(part->dim)];
    CAPSTAN_ASSERT(part->offset >= 0 && part->offset + size <= part->whole);
    size = part->whole;
  }
  return out;
}

std::size_t FileTensor::stacked_dims(const Shape& record) const {
  if (stack.empty()) return 0;
  std::int64_t counted = 1;
  std::size_t dims = 0;
  const auto all = static_cast<std::int64_t>(stack.size());
  while (dims < record.size() && (dims == 0 || counted < all)) counted *= record[dims++];
  CAPSTAN_ASSERT(counted == all && dims > 0);
  return dims;
}

Shape FileTensor::expected_shape(const Shape& record) const {
  if (!stack.empty()) {
    CAPSTAN_ASSERT(!transposed && !part && order.empty() && file_shape.empty());
    return {record.begin() + static_cast<std::ptrdiff_t>(stacked_dims(record)), record.end()};
  }
  Shape out = fused_shape(record);
  if (transposed) {
    CAPSTAN_ASSERT(out.size() == 2 && file_shape.empty());
    std::swap(out[0], out[1]);
  }
  if (!order.empty()) {
    CAPSTAN_ASSERT(!transposed && !part && order.size() == record.size());
    for (std::size_t d = 0; d < order.size(); ++d) out[d] = record.at(static_cast<std::size_t>(order[d]));
  }
  if (file_shape.empty()) return out;
  CAPSTAN_ASSERT(numel(file_shape) == numel(out));
  return file_shape;
}

std::string FileMap::published(const std::string& name) const {
  const bool bare = prefixes.empty() || name.starts_with(prefixes.front()) ||
                    std::find(unprefixed.begin(), unprefixed.end(), name) != unprefixed.end();
  return bare ? name : prefixes.front() + name;
}

}  // namespace capstan::layout
