#pragma once
#include <csignal>

namespace chat {

/// During its lifetime Ctrl-C (SIGINT) only sets a mark; afterwards it does what it did before. One at a time counts,
/// the newest.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  /// Whether it came since this object was made.
  bool asked() const;

 private:
  struct sigaction before_ {};
};

}  // namespace chat
