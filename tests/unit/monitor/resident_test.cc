#include <capstan/monitor/resident.h>
#include <capstan_catch.h>

#include <vector>

namespace resident_test {

using namespace capstan::monitor;

TEST_CASE("the peak of this process is at least all that it has said, and stays when memory is given back") {
  constexpr std::size_t size = std::size_t{64} << 20;
  const auto before = resident_bytes();
  std::int64_t most = 0;
  {
    const std::vector<char> filled(size, 1);
    most = resident_bytes();
    CHECK(most >= before + static_cast<std::int64_t>(size / 2));
    CHECK(filled.back() == 1);
  }
  CHECK(peak_resident_bytes() >= most);
  CHECK(peak_resident_bytes() >= resident_bytes());
}

}  // namespace resident_test
