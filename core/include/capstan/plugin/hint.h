#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace plugin {

/// What people type who know another program, and what it is here: a fault about a name that is unknown says it.
struct Hint {
  std::string program;  ///< the program whose word it is
  std::string key;      ///< what is typed there: an option, with its tables before it ("trainer.max_steps"), a flag
  std::string ours;     ///< "train.max_steps"; empty where none is needed
  std::string why;      ///< a note about it, or why none is needed; may be empty if there is one
  std::string document = {};  ///< what has all of the program's words; may be empty
};

/// For a command that was called with a flag that it has not: a fault for each of its arguments that is another
/// program's flag ("--learning_rate", "--learning_rate=5e-5", "--nproc-per-node=4").
Diagnostics flag_faults(const std::vector<std::string>& arguments, const std::vector<Hint>& hints);

}  // namespace plugin
CAPSTAN_END_NAMESPACE
