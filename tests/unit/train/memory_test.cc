#include "train/memory.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <capstan/base/error.h>
#include <capstan_catch.h>
#include "plugin/guard.h"

#include <functional>
#include <new>
#include <stdexcept>

namespace memory_test {

using namespace capstan;

namespace {

bool is_memory(const std::function<void()>& fails) {
  try {
    fails();
  } catch (const std::exception& error) {
    return train::is_out_of_memory(error);
  }
  throw std::logic_error("nothing was thrown");
}

}  // namespace

TEST_CASE("memory that runs out is known by its error, also after it has come through a plugin") {
  const auto host = [] { (void)at::empty({std::int64_t{1} << 50}, at::kFloat); };
  const auto gpu = [] { TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate 2.00 GiB"); };
  const auto standard = [] { throw std::bad_alloc(); };
  for (const auto& fails : {std::function<void()>(host), std::function<void()>(gpu), std::function<void()>(standard)}) {
    CHECK(is_memory(fails));
    CHECK(is_memory([&] { plugin::guard("gpt", "forward", fails); }));
  }
  CHECK_FALSE(is_memory([] { throw std::runtime_error("the file is too large"); }));
  CHECK_FALSE(is_memory([] { throw Error("loss is not finite"); }));
}

TEST_CASE("footprints as monitors are told of them") {
  const auto parts = train::memory_parts({{"parameters", 8, "cuda", "always"}, {"offloaded gradients", 4, "host", ""}});
  REQUIRE(parts.size() == 2);
  CHECK((parts[0].part == "parameters" && parts[0].bytes == 8 && !parts[0].on_host));
  CHECK((parts[1].bytes == 4 && parts[1].on_host));
}

}  // namespace memory_test
