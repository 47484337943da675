#pragma once
#include <c10/core/Allocator.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <functional>
#include <memory>

CAPSTAN_BEGIN_NAMESPACE
namespace predict {

/// Bytes of memory.
struct MemoryCount {
  std::int64_t now = 0;           ///< allocated now
  std::int64_t peak = 0;          ///< the most that was allocated at a time
  std::int64_t largest = 0;       ///< the largest block so far
  std::function<void()> on_peak;  ///< called after each rise of the peak
  /// Adds memory; negative: frees it.
  void add(std::int64_t bytes);
};

/// Counts the memory that tensors of the meta device would take on a GPU: in blocks of 512 bytes, as CUDA's caching
/// allocator does. During its lifetime it replaces the process's allocator of the meta device: one at a time, while no
/// other thread makes meta tensors. Tensors may outlive it.
class MemoryCounter final : c10::Allocator {
 public:
  MemoryCounter();
  ~MemoryCounter() override;
  MemoryCounter(const MemoryCounter&) = delete;
  MemoryCounter& operator=(const MemoryCounter&) = delete;
  /// Memory that is not a tensor's may be added.
  MemoryCount& count() const { return *count_; }

 private:
  c10::DataPtr allocate(std::size_t bytes) override;
  void copy_data(void*, const void*, std::size_t) const override {}

  std::shared_ptr<MemoryCount> count_ = std::make_shared<MemoryCount>();
  c10::Allocator* before_;
};

}  // namespace predict
CAPSTAN_END_NAMESPACE
