#include "predict/memory_counter.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

namespace memory_counter_test {

using namespace capstan;

TEST_CASE("meta memory counts blocks of 512 bytes while tensors live") {
  const auto options = at::TensorOptions().device(at::kMeta).dtype(at::kFloat);
  at::Tensor outlives;
  {
    const predict::MemoryCounter counter;
    auto& memory = counter.count();
    int rises = 0;
    memory.on_peak = [&] { ++rises; };
    CHECK(memory.now == 0);
    {
      const auto one = at::empty({1}, options);
      const auto view = one.view({1, 1});
      CHECK(memory.now == 512);
      const auto more = at::empty({129}, options);
      CHECK(memory.now == 1536);
    }
    CHECK(memory.now == 0);
    CHECK(memory.peak == 1536);
    CHECK(memory.largest == 1024);
    memory.add(1000);
    CHECK(memory.now == 1000);
    CHECK(rises == 2);
    memory.add(-1000);
    outlives = at::empty({1024}, options);
    CHECK(memory.peak == 4096);
    CHECK(memory.largest == 4096);
    CHECK(rises == 3);
  }
  outlives.reset();
  const auto uncounted = at::empty({4}, options);
  CHECK(uncounted.numel() == 4);
}

}  // namespace memory_counter_test
