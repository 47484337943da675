#pragma once
#include <capstan/plugin/hint.h>

#include <vector>

namespace import_deepspeed {

/// Every key of another program that is known, program by program in the order of docs/from-the-workshop.md.
std::vector<capstan::plugin::Hint> all_hints();

}  // namespace import_deepspeed
