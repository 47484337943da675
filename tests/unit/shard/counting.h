#pragma once
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace capstan::testing {

/// This thread is one rank: what it has now, and the most that it had since `peak` was last set.
inline thread_local std::int64_t live = 0;
inline thread_local std::int64_t peak = 0;

/// Counts bytes for each thread, then asks the allocator that was there before.
class CountingAllocator : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}
  c10::DataPtr allocate(std::size_t bytes) override {
    auto* block = new Block{inner_->allocate(bytes), static_cast<std::int64_t>(bytes)};
    live += block->bytes;
    peak = std::max(peak, live);
    return {block->data.get(), block, &CountingAllocator::free_block, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  struct Block {
    c10::DataPtr data;
    std::int64_t bytes;
  };
  static void free_block(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    live -= block->bytes;
  }
  c10::Allocator* inner_;
};

/// Counts as long as it lives.
class Counting {
 public:
  Counting() : before_(c10::GetCPUAllocator()), counting_(before_) { c10::SetCPUAllocator(&counting_, 255); }
  ~Counting() { c10::SetCPUAllocator(before_, 255); }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

 private:
  c10::Allocator* before_;
  CountingAllocator counting_;
};

}  // namespace capstan::testing
