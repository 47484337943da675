#pragma once
#include <capstan/base/error.h>

#include <string>
#include <vector>

#include "config/toml_reader.h"

CAPSTAN_BEGIN_NAMESPACE
namespace config {

/// All keys of a file and of the files that it extends, the lowest layer first; `extends` itself is gone.
/// A cycle, a missing base and broken TOML throw Error that names the file and line that asks.
std::vector<Item> read_layers(const std::string& file, Diagnostics& diagnostics);

}  // namespace config
CAPSTAN_END_NAMESPACE
