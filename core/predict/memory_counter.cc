#include "predict/memory_counter.h"

#include <algorithm>

namespace capstan::predict {
namespace {

/// What a storage holds in place of memory.
struct Block {
  std::shared_ptr<MemoryCount> count;
  std::int64_t bytes = 0;
  static void free(void* block) {
    const std::unique_ptr<Block> own(static_cast<Block*>(block));
    own->count->add(-own->bytes);
  }
};

}  // namespace

void MemoryCount::add(std::int64_t bytes) {
  now += bytes;
  if (now <= peak) return;
  peak = now;
  if (on_peak) on_peak();
}

MemoryCounter::MemoryCounter() : before_(c10::GetAllocator(c10::DeviceType::Meta)) {
  c10::SetAllocator(c10::DeviceType::Meta, this);
}

MemoryCounter::~MemoryCounter() {
  c10::SetAllocator(c10::DeviceType::Meta, before_);
  count_->on_peak = nullptr;
}

c10::DataPtr MemoryCounter::allocate(std::size_t bytes) {
  constexpr std::int64_t block = 512;
  auto own = std::make_unique<Block>();
  own->count = count_;
  own->bytes = (static_cast<std::int64_t>(bytes) + block - 1) / block * block;
  count_->largest = std::max(count_->largest, own->bytes);
  count_->add(own->bytes);
  return {nullptr, own.release(), &Block::free, c10::Device(c10::DeviceType::Meta)};
}

}  // namespace capstan::predict
