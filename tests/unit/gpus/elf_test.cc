#include "gpus/elf.h"

#include <capstan_catch.h>
#include <capstan_places.h>

#include <algorithm>
#include <filesystem>

namespace elf_test {

namespace {
using namespace capstan::gpus;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

TEST_CASE("where a library looks for others is read from its file") {
  const auto library = fs::path(CAPSTAN_BINARY_DIR) / "lib" / "libcapstan_engine.so";
  const auto needs = needs_of(library);
  CHECK(needs.own_first);  // written as DT_RPATH
  REQUIRE_FALSE(needs.folders.empty());
  for (const auto& folder : needs.folders) CHECK_THAT(folder.string(), !Contains("$ORIGIN"));
  CHECK(needs_of("/does/not/exist").folders.empty());
}

TEST_CASE("gpu: what a library needs is read from its file") {
  const auto needed = needs_of(fs::path(CAPSTAN_BINARY_DIR) / "lib" / "libcapstan_engine.so").names;
  CHECK(std::count(needed.begin(), needed.end(), "libtorch_cpu.so") == 1);
  CHECK(needs_of("/etc/hostname").names.empty());
  CHECK(needs_of("/does/not/exist").names.empty());
}

}  // namespace

}  // namespace elf_test
