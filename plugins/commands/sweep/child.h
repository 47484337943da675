#pragma once
#include <string>
#include <vector>

namespace sweep {

/// What became of a program.
struct Ended {
  int code = 0;      ///< 128 + the signal where one ended it
  std::string said;  ///< standard output and error, where they were captured
};

/// Starts a program, found in PATH unless it holds a slash, and waits for its end. Its output is ours, or captured.
/// Throws Error where it cannot be started.
Ended run_program(const std::vector<std::string>& command, bool capture);

/// This program's own file.
std::string own_program();

}  // namespace sweep
