#include "interruptible.h"

#include <atomic>

namespace chat {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_interrupt(int) { interrupted.store(true); }

}  // namespace

Interruptible::Interruptible() {
  interrupted.store(false);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_);
}

Interruptible::~Interruptible() { sigaction(SIGINT, &before_, nullptr); }

bool Interruptible::asked() const { return interrupted.load(); }

}  // namespace chat
