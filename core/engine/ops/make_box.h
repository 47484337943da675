#pragma once
#include <c10/util/ArrayRef.h>
#include <capstan/base/export.h>

#include "kernels/box_index.h"

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// The box of `size` elements from `offset` on in a contiguous tensor of `shape`; dimensions that are contiguous in
/// both are merged, so a full tensor has one. Asserts that the box is inside and has 1 to 8 dimensions left.
kernels::BoxIndex make_box(at::IntArrayRef size, at::IntArrayRef shape, at::IntArrayRef offset);

}  // namespace ops
CAPSTAN_END_NAMESPACE
