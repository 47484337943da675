#pragma once
#include "cli/command.h"

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

/// capstan trace RUN|FILE… : where the time of traced steps went.
void add_trace_command(CLI::App& app, Chosen& chosen);

}  // namespace cli
CAPSTAN_END_NAMESPACE
