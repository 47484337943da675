#pragma once
#include <capstan/config/value.h>

#include <map>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace config {

/// The values of a TOML file by their whole paths, "train.micro_batch", such as a run's config.toml has them. Throws
/// Error, with file and line, when the file cannot be read, is no TOML, or holds a value that no option can have.
std::map<std::string, Value> toml_values(const std::string& file);

/// TOML that says the same as these overrides ("optimizer.lr=3e-4"): their tables, each after an empty line. Those that
/// are faulty are left out.
std::string toml_of_overrides(const std::vector<std::string>& overrides);

}  // namespace config
CAPSTAN_END_NAMESPACE
