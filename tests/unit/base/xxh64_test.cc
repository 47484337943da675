#include "base/xxh64.h"

#include <capstan_catch.h>

#include <string>

namespace xxh64_test {

using capstan::xxh64_text;

TEST_CASE("hashes equal the reference implementation's for every way through the algorithm") {
  // Made with Python's xxhash: xxhash.xxh64(bytes(i * 7 % 256 for i in range(n))).hexdigest().
  const auto hash = [](int n) {
    std::string bytes;
    for (int i = 0; i < n; ++i) bytes.push_back(static_cast<char>(i * 7 % 256));
    return xxh64_text(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
  };
  CHECK(hash(0) == "ef46db3751d8e999");
  CHECK(hash(1) == "e934a84adb052768");
  CHECK(hash(4) == "ae5acdc00a55ac41");
  CHECK(hash(7) == "d734a6b26f3da63e");
  CHECK(hash(8) == "87116b3365b924eb");
  CHECK(hash(31) == "0f187c62b1e722b7");
  CHECK(hash(32) == "91b0cb0931a8c629");
  CHECK(hash(47) == "980974feb2a7370d");
  CHECK(hash(1000) == "25275608a9cfc168");
}

}  // namespace xxh64_test
