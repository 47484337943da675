#pragma once
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <optional>
#include <string>
#include <vector>

#include "launch/launch.h"

CAPSTAN_BEGIN_NAMESPACE
namespace launch {

/// Typed access that names the variable in its errors.
class Reader {
 public:
  explicit Reader(const Environment& env) : env_(env) {}

  bool has(const std::string& name) const { return env_(name).has_value(); }
  std::string text(const std::string& name) const { return env_(name).value_or(""); }

  std::optional<int> maybe_number(const std::string& name) const {
    const auto value = env_(name);
    if (!value) return std::nullopt;
    const auto number = number_in<int>(*value);
    if (number && *number >= 0) return number;
    throw Error(cat(name, " is '", *value, "', not a number"),
                "it is set by the launcher: start the program through it");
  }
  int number(const std::string& name) const {
    const auto value = maybe_number(name);
    if (!value)
      throw Error(cat("the launcher did not set ", name), "start the program through srun, torchrun or mpirun");
    return *value;
  }
  int number(const std::string& name, int otherwise) const { return maybe_number(name).value_or(otherwise); }

  /// The names of those that are set.
  std::vector<std::string> present(const std::vector<std::string>& names) const {
    std::vector<std::string> found;
    for (const auto& name : names) {
      if (has(name)) found.push_back(name);
    }
    return found;
  }

 private:
  const Environment& env_;
};

/// MASTER_ADDR and MASTER_PORT, both or none.
void read_master(const Reader& env, Launch& launch);
void check_world(const World& world, const std::string& rank_name, const std::string& size_name);
/// A rank of an srun step, or with `spawned` one of those that such a rank has started on its node.
void read_srun(const Reader& env, Launch& launch, bool spawned);

}  // namespace launch
CAPSTAN_END_NAMESPACE
