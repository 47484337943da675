#pragma once
#include <c10/core/Allocator.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <functional>
#include <memory>

CAPSTAN_BEGIN_NAMESPACE
namespace meta {

/// Counts the memory that tensors of the meta device would take on a GPU: in blocks of 512 bytes, as CUDA's caching
/// allocator does. During its lifetime it replaces the process's allocator of the meta device: one at a time, while no
/// other thread makes meta tensors. Tensors may outlive it.
class MemoryCounter {
 public:
  MemoryCounter();
  ~MemoryCounter();
  MemoryCounter(const MemoryCounter&) = delete;
  MemoryCounter& operator=(const MemoryCounter&) = delete;

  /// Adds memory that is not a tensor's; negative: frees it.
  void add(std::int64_t bytes);
  /// Bytes allocated now.
  std::int64_t now() const;
  /// The peak of allocated bytes.
  std::int64_t peak() const;
  /// The largest block so far.
  std::int64_t largest() const;
  /// Called after each rise of the peak.
  void set_on_peak(std::function<void()> on_peak);

 private:
  class Counter;
  std::unique_ptr<Counter> counter_;
  c10::Allocator* before_;
};

}  // namespace meta
CAPSTAN_END_NAMESPACE
