#include <capstan/base/counted.h>
#include <capstan_catch.h>

#include <cstdint>

namespace counted_test {

using namespace capstan;

TEST_CASE("a count and its noun agree") {
  CHECK(counted(0, "rank") == "0 ranks");
  CHECK(counted(1, "rank") == "1 rank");
  CHECK(counted(std::size_t{2}, "rank") == "2 ranks");
  CHECK(counted(std::int64_t{1}, "copy", "copies") == "1 copy");
  CHECK(counted(3, "copy", "copies") == "3 copies");
  CHECK(plural(1, "is", "are") == "is");
  CHECK(plural(0, "is", "are") == "are");
}

}  // namespace counted_test
