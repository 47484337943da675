#pragma once
#include <capstan/plugin/host.h>

#include <string>
#include <vector>

#include "reference.h"

namespace reference {

/// What `capstan reference WORD…` prints: the options for which each word is the table's name or the plugin's, or in
/// the option's name or its meaning, in capitals or not, below their tables. "train.acc" has the table too. Throws
/// Error, with the nearest name, where there is none.
std::string matching(const std::vector<HostTable>& tables, const std::vector<capstan::plugin::Found>& plugins,
                     const std::vector<std::string>& words);

}  // namespace reference
