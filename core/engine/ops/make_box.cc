#include "ops/make_box.h"

#include <capstan/base/error.h>

namespace capstan::ops {
namespace {

void append(kernels::BoxIndex& box, std::int64_t size, std::int64_t stride) {
  const int last = box.dims - 1;
  if (last >= 0 && box.size[last] == 1) {  // a dimension of size 1 needs no index
    box.size[last] = size;
    box.stride[last] = stride;
  } else if (last >= 0 && box.stride[last] == size * stride) {
    box.size[last] *= size;
    box.stride[last] = stride;
  } else {
    CAPSTAN_ASSERT(box.dims < kernels::BoxIndex::max_dims);
    box.size[box.dims] = size;
    box.stride[box.dims] = stride;
    ++box.dims;
  }
}

}  // namespace

kernels::BoxIndex make_box(at::IntArrayRef size, at::IntArrayRef shape, at::IntArrayRef offset) {
  CAPSTAN_ASSERT(size.size() == shape.size() && offset.size() == shape.size());
  kernels::BoxIndex box;
  std::int64_t stride = 1;
  for (const std::int64_t extent : shape) {
    stride *= extent;
  }
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    CAPSTAN_ASSERT(offset[dim] >= 0 && size[dim] > 0 && offset[dim] + size[dim] <= shape[dim]);
    stride /= shape[dim];
    box.base += offset[dim] * stride;
    append(box, size[dim], stride);
  }
  if (box.dims == 0) {  // a scalar
    append(box, 1, 1);
  }
  return box;
}

}  // namespace capstan::ops
