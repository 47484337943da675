#include "ranks/gpu_module.h"

#include <capstan_catch.h>
#include <capstan_places.h>

namespace gpu_module_test {

TEST_CASE("gpu: a build without the module says so") {
  if (std::filesystem::exists(std::filesystem::path(CAPSTAN_BINARY_DIR) / "lib" / "libcapstan_cuda.so")) return;
  CHECK_THROWS_WITH(capstan::ranks::open_gpu({}, {}, {}), Contains("this build has no GPU module: ") &&
                                                              Contains("libcapstan_cuda.so does not exist") &&
                                                              Contains("cmake --preset cuda"));
}

}  // namespace gpu_module_test
