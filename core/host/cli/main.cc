#include <cstdio>
#include <cstdlib>

#include "cli/program.h"
#include "launch/limits.h"

// Runs before the initialisers of all libraries, which is before LibTorch needs memory and stack.
[[gnu::section(".preinit_array"), gnu::used]] void (*check_limits_first)() = capstan::launch::check_start_limits;

// The libraries' destructors are left out: LibTorch's take half as long as its initialisers, and free only memory.
int main(int argc, char** argv) {
  const int code = capstan::cli::program(argc, argv);
  std::fflush(nullptr);
  std::_Exit(code);
}
