// Opens the GPU module before anything asks ATen for a device, as the program does, then runs the tests.
#define CATCH_CONFIG_RUNNER
#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <dlfcn.h>

#include <filesystem>
#include <iostream>

int main(int argc, char** argv) {
  const auto program = std::filesystem::canonical("/proc/self/exe");
  const auto module = program.parent_path().parent_path() / "lib" / "libcapstan_cuda.so";
  if (dlopen(module.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::cerr << "test_gpu: " << dlerror() << '\n';
    return 1;
  }
  if (!at::hasCUDA()) {
    std::cerr << "test_gpu: skipped, because no GPU is visible\n";
    return 77;  // what CTest takes for skipped
  }
  return Catch::Session().run(argc, argv);
}
