#pragma once
#include <capstan/base/export.h>

#include <string>

#include "cli/command.h"

CAPSTAN_BEGIN_NAMESPACE
namespace cli {

/// `capstan top RUN`: where a run stands. On a terminal again every `every_s` seconds until the run ends.
int top_command(const std::string& run, double every_s, bool terminal);

/// Declares it.
void add_top_command(CLI::App& app, Chosen& chosen);

}  // namespace cli
CAPSTAN_END_NAMESPACE
