#pragma once
#include <capstan/strategy/keep_input.h>

#include <memory>

namespace recompute {

/// Keeps inputs in host memory between forward and backward. On a GPU the memory is page-locked and copies run on a
/// stream of their own while the GPU computes: in forward at most two inputs are on their way to the host, in backward
/// one comes back ahead of the one that is used. The last two of a forward are used before the others and stay where
/// they are until something else leaves. Host memory is allocated when it is first needed and used again in each step.
/// On a CPU the same happens without streams. On the meta device nothing is copied, and a dry run is told of what would
/// be.
///
/// One for a model; calls come from one thread at a time, with the computing stream current.
class HostCopies {
 public:
  HostCopies();
  /// For an input that waits in host memory. What it returns may outlive this object.
  capstan::strategy::KeepInput keep() const;
  /// Bytes of host memory that this has allocated.
  std::int64_t host_bytes() const;
  /// Bytes that were copied to host memory and back, all in all.
  std::int64_t copied_bytes() const;

 private:
  class Copier;
  struct Copy;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace recompute
