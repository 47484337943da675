#pragma once
#include <capstan/base/export.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace plugin {

/// What people type who know another program, and what it is here: a fault about a name that is unknown says it.
struct Hint {
  std::string program;  ///< whose word it is
  std::string key;      ///< what is typed there: an option, with its tables before it ("trainer.max_steps"), a flag
  std::string ours;     ///< "train.max_steps"; empty where none is needed
  std::string why;      ///< a note about it, or why none is needed; may be empty if there is one
  std::string document = {};  ///< what has all of the program's words; may be empty
};

}  // namespace plugin
CAPSTAN_END_NAMESPACE
