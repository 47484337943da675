#pragma once
#include <capstan/base/error.h>
#include <capstan/config/options.h>

#include "options.h"

namespace wandb {

/// Adds a fault with its fix where a run that is to be online cannot be: no Python, no wandb in it, no API key. Runs
/// the Python once in a process for each that is asked about; the network is not asked. The key is not read here.
void check_client(const capstan::config::Options<WandbOptions>& options, capstan::Diagnostics& diagnostics);

}  // namespace wandb
