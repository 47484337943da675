#pragma once
#include <c10/core/Allocator.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace capstan::testing {

/// Counts the bytes of CPU tensors that are alive, from its construction to its end. One at a time; tensors may outlive
/// it.
class LiveBytes {
 public:
  LiveBytes() : plain_(c10::GetAllocator(c10::kCPU)), counting_(plain_) { c10::SetAllocator(c10::kCPU, &counting_); }
  ~LiveBytes() { c10::SetAllocator(c10::kCPU, plain_); }
  LiveBytes(const LiveBytes&) = delete;
  LiveBytes& operator=(const LiveBytes&) = delete;
  std::int64_t now() const { return counting_.live->load(); }

 private:
  using Count = std::shared_ptr<std::atomic<std::int64_t>>;

  // What a block's deleter needs; the block's own owner is inside.
  struct Block {
    c10::DataPtr inner;
    std::int64_t bytes;
    Count live;
  };

  struct Counting : c10::Allocator {
    explicit Counting(c10::Allocator* from) : plain(from) {}
    c10::DataPtr allocate(std::size_t bytes) override {
      auto* block = new Block{plain->allocate(bytes), static_cast<std::int64_t>(bytes), live};
      *live += block->bytes;
      return {block->inner.get(), block, &release, c10::Device(c10::kCPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }  // the context is not the memory
    void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
    static void release(void* context) {
      auto* block = static_cast<Block*>(context);
      *block->live -= block->bytes;
      delete block;
    }
    c10::Allocator* plain;
    Count live = std::make_shared<std::atomic<std::int64_t>>(0);
  };

  c10::Allocator* plain_;
  Counting counting_;
};

}  // namespace capstan::testing
