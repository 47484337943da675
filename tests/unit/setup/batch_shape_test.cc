#include "setup/batch_shape.h"

#include <capstan_catch.h>

#include <optional>

namespace batch_shape_test {

using namespace capstan;
using setup::BatchShape;

namespace {

using Size = std::optional<std::int64_t>;

BatchShape resolve(Size micro, Size accumulation, Size global, std::int64_t data_parallel_size,
                   Diagnostics& diagnostics) {
  return setup::resolve_batch({micro, "a.toml:1"}, {accumulation, "a.toml:2"}, {global, "a.toml:3"}, data_parallel_size,
                              diagnostics);
}

BatchShape good(Size micro, Size accumulation, Size global, std::int64_t data_parallel_size) {
  Diagnostics diagnostics;
  const auto shape = resolve(micro, accumulation, global, data_parallel_size, diagnostics);
  diagnostics.throw_if_any();
  return shape;
}

std::string fault(Size micro, Size accumulation, Size global, std::int64_t data_parallel_size) {
  Diagnostics diagnostics;
  resolve(micro, accumulation, global, data_parallel_size, diagnostics);
  REQUIRE(diagnostics.size() == 1);
  return diagnostics.list()[0].text();
}

void check_shape(const BatchShape& shape, std::int64_t micro, std::int64_t accumulation, std::int64_t global) {
  CHECK(shape.micro_batch == micro);
  CHECK(shape.accumulation == accumulation);
  CHECK(shape.global_batch == global);
}

}  // namespace

TEST_CASE("any two sizes fix the third") {
  check_shape(good(2, 3, {}, 4), 2, 3, 24);
  check_shape(good(2, {}, 24, 4), 2, 3, 24);
  check_shape(good({}, 3, 24, 4), 2, 3, 24);
  check_shape(good(2, 3, 24, 4), 2, 3, 24);
}

TEST_CASE("what is missing otherwise is 1") {
  check_shape(good({}, {}, {}, 4), 1, 1, 4);
  check_shape(good(2, {}, {}, 4), 2, 1, 8);
  check_shape(good({}, 3, {}, 4), 1, 3, 12);
  check_shape(good({}, {}, 12, 4), 3, 1, 12);
}

TEST_CASE("the slots of a global batch are handed out once each, whatever the shape") {
  for (const auto& shape : {good(2, 3, {}, 4), good(1, 1, {}, 8), good(4, 6, {}, 1)}) {
    std::vector<int> taken(static_cast<std::size_t>(shape.global_batch));
    for (std::int64_t step = 0; step < shape.accumulation; ++step) {
      for (std::int64_t coordinate = 0; coordinate < shape.data_parallel_size; ++coordinate) {
        for (std::int64_t row = 0; row < shape.micro_batch; ++row) {
          taken.at(static_cast<std::size_t>(shape.first_slot(step, coordinate) + row))++;
        }
      }
    }
    CHECK(taken == std::vector<int>(taken.size(), 1));
  }
}

TEST_CASE("sizes that don't fit are refused with the arithmetic and the nearest that do") {
  CHECK(fault(2, {}, 10, 4) ==
        "a.toml:3: global_batch 10 is not a multiple of micro_batch 2 x data-parallel size 4 = 8\n"
        "    fix: global_batch = 8 or 16 works with micro_batch 2; no micro_batch works with global_batch 10, which is "
        "not a multiple of 4");
  CHECK(fault(2, {}, 12, 4) ==
        "a.toml:3: global_batch 12 is not a multiple of micro_batch 2 x data-parallel size 4 = 8\n"
        "    fix: global_batch = 8 or 16 works with micro_batch 2; micro_batch = 1 or 3 works with global_batch 12");
  CHECK(fault({}, 4, 6, 2) ==
        "a.toml:3: global_batch 6 is not a multiple of accumulation 4 x data-parallel size 2 = 8\n"
        "    fix: global_batch = 8 works with accumulation 4; accumulation = 3 works with global_batch 6");
  CHECK(fault(2, 1, 10, 4) ==
        "a.toml:3: global_batch 10 is not micro_batch 2 x accumulation 1 x data-parallel size 4 = 8\n"
        "    fix: set global_batch = 8, or leave one of the three out: any two fix the third (on the command "
        "line train.accumulation= unsets what a file says)");
  CHECK(fault({}, {}, 6, 4) ==
        "a.toml:3: global_batch 6 is not a multiple of accumulation 1 x data-parallel size 4 = 4\n"
        "    fix: global_batch = 4 or 8 works with accumulation 1; no accumulation works with global_batch 6, which is "
        "not a multiple of 4");
}

TEST_CASE("sizes out of range are refused, all of them") {
  CHECK(fault(0, 1, {}, 1) == "a.toml:1: micro_batch is 0\n    fix: use a number from 1 to 1000000");
  Diagnostics diagnostics;
  resolve(-1, 0, 2'000'000, 1, diagnostics);
  CHECK(diagnostics.size() == 3);
}

}  // namespace batch_shape_test
