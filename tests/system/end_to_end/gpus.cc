#include "end_to_end/gpus.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

namespace end_to_end {

int visible_gpus() {
  if (const char* chosen = std::getenv("CUDA_VISIBLE_DEVICES")) {  // NOLINT(concurrency-mt-unsafe): one thread
    const std::string list(chosen);
    return list.empty() ? 0 : 1 + static_cast<int>(std::count(list.begin(), list.end(), ','));
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen("nvidia-smi -L 2>/dev/null", "r"), &pclose);
  std::array<char, 512> line{};
  int count = 0;
  while (pipe && std::fgets(line.data(), line.size(), pipe.get()) != nullptr)
    count += std::string(line.data()).rfind("GPU ", 0) == 0 ? 1 : 0;
  return count;
}

bool too_few_gpus(int wanted) {
  const int seen = visible_gpus();
  if (seen < wanted) std::cout << "skipped: " << wanted << " GPUs are needed, " << seen << " visible" << std::endl;
  return seen < wanted;
}

}  // namespace end_to_end
