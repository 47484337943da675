// Opens the GPU module before anything asks ATen for a device, as the program does, and the plugins whose operators are
// tested, then runs the tests.
#define CATCH_CONFIG_RUNNER
#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <dlfcn.h>

#include <filesystem>
#include <iostream>

int main(int argc, char** argv) {
  const auto program = std::filesystem::canonical("/proc/self/exe");
  const auto lib = program.parent_path().parent_path() / "lib";
  const auto open = [&](const std::filesystem::path& file, int how) {
    if (dlopen((lib / file).c_str(), RTLD_NOW | how) != nullptr) return true;
    std::cerr << "test_gpu: " << dlerror() << '\n';
    return false;
  };
  if (!open("libcapstan_cuda.so", RTLD_GLOBAL)) return 1;
  for (const auto* file : {"strategy/fp8.so", "strategy/fp8_cuda.so", "strategy/nf4.so", "strategy/nf4_cuda.so",
                           "optimizer/adam8bit.so", "optimizer/adam8bit_cuda.so", "model/qwen3.so",
                           "model/qwen3_cuda.so", "model/qwen3_5.so", "model/qwen3_5_cuda.so", "model/bloom.so",
                           "model/bloom_cuda.so", "model/gpt_oss.so", "model/gpt_oss_cuda.so"}) {
    if (!open(std::filesystem::path("capstan/plugins") / file, RTLD_LOCAL)) return 1;
  }
  if (!at::hasCUDA()) {
    std::cerr << "test_gpu: skipped, because no GPU is visible\n";
    return 77;  // what CTest takes for skipped
  }
  return Catch::Session().run(argc, argv);
}
