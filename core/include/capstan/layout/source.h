#pragma once
#include <capstan/base/box.h>
#include <capstan/base/export.h>
#include <capstan/layout/param.h>

#include <ATen/core/Tensor.h>

CAPSTAN_BEGIN_NAMESPACE
namespace layout {

/// Where parameters' values come from: files, a checkpoint, initialisation. Any box equals that slice of the
/// logical tensor. One thread at a time, unless concurrent() says otherwise.
class Source {
 public:
  virtual ~Source();
  /// May several threads fill at once?
  virtual bool concurrent() const { return false; }
  /// Can this source fill the parameter?
  virtual bool has(const Param& param) const = 0;
  /// Writes the box of the logical tensor to `out`, which is contiguous, has box.numel() elements in row-major order
  /// (any shape) and any floating-point dtype, and is on any device; values are converted. Throws Error.
  virtual void fill(const Param& param, const Box& box, const at::Tensor& out) = 0;
};

/// The part of a tensor that a box of it is: a view.
at::Tensor view_of(at::Tensor tensor, const Box& box);
/// The box as one of `outer`'s elements, which holds it.
Box relative_to(const Box& outer, Box box);

}  // namespace layout
CAPSTAN_END_NAMESPACE
