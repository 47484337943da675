#pragma once
#include <capstan/base/export.h>
#include <capstan/config/options.h>

#include <string>
#include <utility>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// The tables of a configuration that are the host's own: (table, schema), such as "train".
std::vector<std::pair<std::string, config::Schema>> host_schemas();

}  // namespace setup
CAPSTAN_END_NAMESPACE
