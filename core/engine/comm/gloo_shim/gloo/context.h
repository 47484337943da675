// Gloo's code is inside libtorch_cpu, its headers are not in LibTorch. These files declare what
// ProcessGroupGloo.hpp names, and no more: only LibTorch creates and destroys objects of these classes.
#pragma once
#include <chrono>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo
