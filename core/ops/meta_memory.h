#pragma once
#include <c10/core/Allocator.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <functional>
#include <memory>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Counts the memory that tensors of the meta device would take on a GPU: in blocks of 512 bytes, as CUDA's caching
/// allocator hands memory out. It stands in for the process's allocator of that device, which has no memory, from its
/// making to its end: one at a time, while no other thread makes meta tensors. Tensors may outlive it.
class MetaMemory {
 public:
  MetaMemory();
  ~MetaMemory();
  MetaMemory(const MetaMemory&) = delete;
  MetaMemory& operator=(const MetaMemory&) = delete;

  /// Memory beside that of tensors; negative: given back.
  void add(std::int64_t bytes);
  /// Bytes that are there.
  std::int64_t now() const;
  /// The most that was there at once.
  std::int64_t peak() const;
  /// Called whenever the peak rises, when it has.
  void set_on_peak(std::function<void()> on_peak);

 private:
  class Counter;
  std::unique_ptr<Counter> counter_;
  c10::Allocator* before_;
};

}  // namespace ops
CAPSTAN_END_NAMESPACE
