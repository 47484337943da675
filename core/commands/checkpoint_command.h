#pragma once
#include <capstan/base/export.h>

#include <iosfwd>
#include <string>

#include "cli/command.h"

CAPSTAN_BEGIN_NAMESPACE
namespace commands {

struct CheckpointArguments {
  std::string action;  ///< "ls", "verify" or "show"
  std::string path;    ///< a run's folder, its folder of checkpoints, one of them, or the file `latest`
  std::string section;
  bool config = false;
  bool tensors = false;
};

/// Declares `capstan checkpoint ls|verify|show`.
void add_checkpoint_command(CLI::App& app, cli::Chosen& chosen);
/// Its arguments alone.
void add_checkpoint_arguments(CLI::App& command, CheckpointArguments& arguments);

/// ls: a table of the checkpoints (and final weights) of a run: step, size, date, metrics, which is the best, layout,
/// whether their files are whole; then what a crash left there. verify: compares every byte with its hash, says every
/// few seconds in `progress` how far it is, names all faults, and returns ExitCode::failure for any. show: what a
/// checkpoint says of itself, one of its sections, its configuration or its tensors. Throws Error for a path that leads
/// to none.
int checkpoint_command(const CheckpointArguments& arguments, std::ostream& out, std::ostream& progress);

}  // namespace commands
CAPSTAN_END_NAMESPACE
