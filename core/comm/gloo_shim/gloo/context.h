// Gloo's code is inside libtorch_cpu, its headers are not in LibTorch. These files declare what
// ProcessGroupGloo.hpp names, and no more: objects of these classes are made and destroyed by LibTorch alone.
#pragma once
#include <chrono>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo
