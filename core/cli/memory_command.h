#pragma once
#include "cli/command.h"

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

/// capstan memory RUN|FILE… : peak, average and mode of memory logs.
void add_memory_command(CLI::App& app, Chosen& chosen);

}  // namespace cli
CAPSTAN_END_NAMESPACE
