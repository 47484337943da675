#pragma once
#include <capstan/base/export.h>

#include <string>

#include "cli/command.h"

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

/// `capstan import-deepspeed FILE`: the TOML on standard output, the notes on standard error. Without a file, the
/// table of keys.
int import_deepspeed_command(const std::string& file);

/// Declares it.
void add_import_deepspeed_command(CLI::App& app, Chosen& chosen);

}  // namespace cli
CAPSTAN_END_NAMESPACE
