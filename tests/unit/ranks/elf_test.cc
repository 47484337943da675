#include "ranks/elf.h"

#include <capstan_catch.h>
#include <capstan_places.h>

#include <algorithm>
#include <filesystem>

namespace elf_test {

namespace {
using namespace capstan::launch;  // NOLINT(google-build-using-namespace)
using namespace capstan::ranks;   // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

TEST_CASE("where a library looks for others is read from its file") {
  const auto library = fs::path(CAPSTAN_BINARY_DIR) / "lib" / "libcapstan_engine.so";
  const auto paths = search_paths(library.string());
  CHECK(paths.before_environment);  // written as DT_RPATH
  REQUIRE_FALSE(paths.folders.empty());
  for (const auto& folder : paths.folders) CHECK_THAT(folder, !Contains("$ORIGIN"));
  CHECK(search_paths("/does/not/exist").folders.empty());
}

TEST_CASE("gpu: what a library needs is read from its file") {
  const auto needed = capstan::ranks::needed_libraries(
      (std::filesystem::path(CAPSTAN_BINARY_DIR) / "lib" / "libcapstan_engine.so").string());
  CHECK(std::count(needed.begin(), needed.end(), "libtorch_cpu.so") == 1);
  CHECK(capstan::ranks::needed_libraries("/etc/hostname").empty());
  CHECK(capstan::ranks::needed_libraries("/does/not/exist").empty());
}

}  // namespace

}  // namespace elf_test
