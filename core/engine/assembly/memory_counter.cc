#include "assembly/memory_counter.h"

#include <algorithm>
#include <utility>

namespace capstan::meta {
namespace {

struct Count {
  std::int64_t now = 0;
  std::int64_t peak = 0;
  std::int64_t largest = 0;
  std::function<void()> on_peak;
  void add(std::int64_t bytes) {
    now += bytes;
    if (now <= peak) return;
    peak = now;
    if (on_peak) on_peak();
  }
};

/// What a storage holds in place of memory.
struct Block {
  std::shared_ptr<Count> count;
  std::int64_t bytes = 0;
  static void free(void* block) {
    const std::unique_ptr<Block> own(static_cast<Block*>(block));
    own->count->add(-own->bytes);
  }
};

}  // namespace

class MemoryCounter::Counter final : public c10::Allocator {
 public:
  Count& count() const { return *count_; }
  c10::DataPtr allocate(std::size_t bytes) override {
    constexpr std::int64_t block = 512;
    auto own = std::make_unique<Block>();
    own->count = count_;
    own->bytes = (static_cast<std::int64_t>(bytes) + block - 1) / block * block;
    count_->largest = std::max(count_->largest, own->bytes);
    count_->add(own->bytes);
    return {nullptr, own.release(), &Block::free, c10::Device(c10::DeviceType::Meta)};
  }
  void copy_data(void*, const void*, std::size_t) const override {}

 private:
  std::shared_ptr<Count> count_ = std::make_shared<Count>();
};

MemoryCounter::MemoryCounter()
    : counter_(std::make_unique<Counter>()), before_(c10::GetAllocator(c10::DeviceType::Meta)) {
  c10::SetAllocator(c10::DeviceType::Meta, counter_.get());
}

MemoryCounter::~MemoryCounter() {
  c10::SetAllocator(c10::DeviceType::Meta, before_);
  counter_->count().on_peak = nullptr;
}

void MemoryCounter::add(std::int64_t bytes) { counter_->count().add(bytes); }
std::int64_t MemoryCounter::now() const { return counter_->count().now; }
std::int64_t MemoryCounter::peak() const { return counter_->count().peak; }
std::int64_t MemoryCounter::largest() const { return counter_->count().largest; }
void MemoryCounter::set_on_peak(std::function<void()> on_peak) { counter_->count().on_peak = std::move(on_peak); }

}  // namespace capstan::meta
