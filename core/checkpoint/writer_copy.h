#pragma once
#include <capstan/base/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <vector>

#include "checkpoint/checkpoint.h"

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// One buffer in host memory that boxes are copied to, as large as the largest save so far.
class HostCopy {
 public:
  /// `pinned`: see ops::host_zeros.
  explicit HostCopy(bool pinned);
  ~HostCopy();
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;

  /// Allocates for boxes like these. Throws Error where the system does not give so much.
  void reserve(const std::vector<TensorBox>& boxes);
  /// The boxes with their data in this buffer, valid until the next call. What is in host memory is there when this
  /// returns. What is on a GPU is when wait() returns: it is copied on a stream of its own, behind what the current
  /// one has queued, and the current one goes on beside it, but for boxes that may change at any time.
  std::vector<TensorBox> begin(const std::vector<TensorBox>& boxes);
  /// What the current stream is given from now on starts behind the copies. The host does not wait.
  void hold();
  /// The host waits for the copies; on any thread.
  void wait() const;

  /// Is it known how long hold() made the GPU wait? Nothing waits here.
  bool is_settled() const;
  /// How long that was, in seconds. Waits until it is known.
  double held_s() const;

 private:
  struct Flight;
  bool pinned_;
  at::Tensor buffer_;               ///< [bytes] uint8
  std::unique_ptr<Flight> flight_;  ///< the last copies from a GPU
};

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
