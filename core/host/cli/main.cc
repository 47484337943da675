#include "cli/program.h"
#include "launch/limits.h"

// Runs before the initialisers of all libraries, which is before LibTorch needs memory and stack.
[[gnu::section(".preinit_array"), gnu::used]] void (*check_limits_first)() = capstan::launch::check_start_limits;

int main(int argc, char** argv) { return capstan::cli::program(argc, argv); }
