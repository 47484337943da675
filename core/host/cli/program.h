#pragma once
#include <capstan/base/export.h>

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

/// The whole program: reads the command line, runs the command, turns exceptions into words and an exit code.
int program(int argc, char** argv);

}  // namespace cli
CAPSTAN_END_NAMESPACE
