// Plugins with a GPU module next to them. That the fixtures' modules hold no kernel makes no difference to the host.
#include <capstan_catch.h>
#include <capstan_places.h>
#include <dlfcn.h>

#include <filesystem>

#include <capstan/plugin/host.h>
#include "fixtures.h"
#include "plugin/abi.h"
#include "plugin/loader.h"

namespace gpu_module_test {

using namespace capstan;
using namespace capstan::plugin;

namespace {

std::filesystem::path plugin_file(const std::string& name) {
  return std::filesystem::path(CAPSTAN_BINARY_DIR) / "tests" / "gpu_fixtures" / (name + ".so");
}

bool is_open(const std::filesystem::path& file) {
  return dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD) != nullptr;
}

}  // namespace

TEST_CASE("a GPU module is opened on ranks that use GPUs, and only there") {
  const auto folder = plugin_file("kernels").parent_path();
  const auto module = gpu_module_of(plugin_file("kernels"));
  REQUIRE(std::filesystem::exists(module));
  Host without({folder});
  without.load("monitor", "kernels");
  CHECK_FALSE(is_open(module));
  Host with({folder}, true);
  with.load("monitor", "kernels");
  CHECK(is_open(module));
}

TEST_CASE("a GPU module of another LibTorch is refused, also where no GPU is used") {
  const auto message = test::error_of([] { load_plugin_file(plugin_file("kernels_other_torch"), "monitor"); });
  CHECK_THAT(message, Contains("kernels_other_torch_cuda.so: holds kernels that were built for another Capstan"));
  CHECK_THAT(message, Contains("1.0.0") && Contains("<- differs"));
  CHECK_THAT(message, Contains("rebuild the plugin against this Capstan's SDK with -DCAPSTAN_CUDA=ON"));
}

TEST_CASE("a GPU module of another CUDA is refused where Capstan has one itself") {
  const auto other = gpu_module_of(plugin_file("kernels_cuda_11"));
  const auto own = gpu_module_of(plugin_file("kernels"));
  CHECK_NOTHROW(check_gpu_module_abi(own, own));
  const auto message = test::error_of([&] { check_gpu_module_abi(other, own); });
  CHECK_THAT(message, Contains("cuda") && Contains("11") && Contains("2.1") && Contains("<- differs"));
  CHECK_NOTHROW(check_gpu_module_abi(other, own.parent_path() / "none.so"));
}

}  // namespace gpu_module_test
