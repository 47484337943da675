#pragma once
#include <capstan/base/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <vector>

#include "checkpoint/checkpoint.h"

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// One buffer in host memory that boxes are copied to, as large as the largest save so far.
class HostCopy {
 public:
  /// `pinned`: see ops::host_zeros.
  explicit HostCopy(bool pinned) : pinned_(pinned) {}
  /// Allocates for boxes like these. Throws Error where the system does not give so much.
  void reserve(const std::vector<TensorBox>& boxes);
  /// The boxes with their data in host memory; returns when it is there. Copies from a GPU run on a stream of their
  /// own, behind what the current one has queued. They are valid until the next call.
  std::vector<TensorBox> take(const std::vector<TensorBox>& boxes);

 private:
  bool pinned_;
  at::Tensor buffer_;  ///< [bytes] uint8
};

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
