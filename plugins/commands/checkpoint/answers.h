#pragma once
#include <capstan/command/arguments.h>

#include <iosfwd>
#include <string>

namespace checkpoints {

struct Arguments {
  std::string action;  ///< "ls", "verify" or "show"
  std::string path;    ///< a run's folder, its folder of checkpoints, one of them, or the file `latest`
  std::string section;
  bool config = false;
  bool tensors = false;
};

/// Declares all but the action, which is the one that is chosen: ls|verify|show.
void declare(capstan::command::Arguments& arguments, Arguments& given);

/// ls: a table of the checkpoints (and final weights) of a run: step, size, date, metrics, which is the best, layout,
/// whether their files are whole; then what a crash left there. verify: compares every byte with its hash, says every
/// few seconds in `progress` how far it is, names all faults, and returns ExitCode::failure for any. show: what a
/// checkpoint says of itself, one of its sections, its configuration or its tensors. Throws Error for a path that leads
/// to none.
int answer(const Arguments& arguments, std::ostream& out, std::ostream& progress);

}  // namespace checkpoints
