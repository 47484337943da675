#include <capstan/kernels/heads.h>
#include <capstan/kernels/launcher.h>
#include <capstan_catch.h>

namespace launcher_test {

using capstan::kernels::Heads;
using capstan::kernels::is_aligned;
using capstan::kernels::parts_of;

TEST_CASE("parts are as many as hold all, and none of nothing") {
  CHECK(parts_of(0, 4) == 0);
  CHECK(parts_of(1, 4) == 1);
  CHECK(parts_of(4, 4) == 1);
  CHECK(parts_of(5, 4) == 2);
  CHECK(parts_of((std::int64_t{1} << 40) + 1, 1 << 20) == (1 << 20) + 1);
}

TEST_CASE("a pointer is aligned if it begins at whole bytes, and null is") {
  alignas(16) const char bytes[32] = {};
  CHECK(is_aligned(nullptr));
  CHECK(is_aligned(bytes));
  CHECK(is_aligned(bytes + 16));
  CHECK_FALSE(is_aligned(bytes + 8));
  CHECK(is_aligned(bytes + 8, 8));
  CHECK_FALSE(is_aligned(bytes + 12, 8));
}

TEST_CASE("heads are where their strides say, and fit packs only if each of them begins at a whole one") {
  alignas(16) const char memory[32] = {};
  const Heads heads{memory, 3, 1000, 100, 8};
  CHECK(heads.offset(2, 3, 1) == 2308);
  CHECK(heads.fits(memory, 4, 4));
  CHECK_FALSE(heads.fits(memory + 4, 4, 4));
  CHECK_FALSE(heads.fits(memory, 8, 2));  // tokens are 100 elements apart
  CHECK_FALSE(Heads{memory, 3, 1002, 100, 8}.fits(memory, 4, 4));
  CHECK_FALSE(Heads{memory, 3, 1000, 100, 6}.fits(memory, 4, 4));
}

}  // namespace launcher_test
