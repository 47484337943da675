#pragma once
#include <capstan/base/export.h>

#include "cli/command.h"

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

/// Declares `capstan run` and `capstan check`, which the engine does.
void add_run_command(CLI::App& app, Chosen& chosen);
void add_check_command(CLI::App& app, Chosen& chosen);

}  // namespace cli
CAPSTAN_END_NAMESPACE
