#pragma once
#include <capstan/base/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <future>
#include <memory>
#include <optional>
#include <utility>
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

  /// Allocates for boxes like these. Throws Error if the system has not that much memory.
  void reserve(const std::vector<TensorBox>& boxes);
  /// The boxes with their data in this buffer, valid until the next call and complete when finish() returns. GPU data
  /// is copied on a side stream, after the work queued on the current stream, which continues meanwhile. finish()
  /// copies what is in host memory. Boxes that may change at any time are copied at once.
  std::vector<TensorBox> begin(const std::vector<TensorBox>& boxes);
  /// Copies boxes in host memory and waits for copies from a GPU. Called once after each begin(), on any thread.
  void finish();
  /// Orders the caller's later work, on the host and on the current stream, after the copies. The host waits for the
  /// copies of host memory; the stream waits for the others.
  void hold();

  /// Is it known how long hold() made the GPU wait? Does not wait.
  bool is_settled() const;
  /// How long the host and the GPU waited in hold(), in seconds. Waits until it is known.
  double held_s() const;

 private:
  struct Flight;
  void leave(const std::vector<TensorBox>& to, const std::vector<TensorBox>& from);

  bool pinned_;
  at::Tensor buffer_;                                  ///< [bytes] uint8
  std::unique_ptr<Flight> flight_;                     ///< the last copies from a GPU
  std::vector<std::pair<TensorBox, TensorBox>> left_;  ///< to, from: in host memory, for finish()
  std::optional<std::promise<void>> left_done_;        ///< released when finish() has copied these
  std::future<void> left_wait_;                        ///< for hold(); invalid: nothing to wait for
  double host_held_s_ = 0;
};

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
