#pragma once
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <charconv>
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
    int number = 0;
    const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
    if (error != std::errc() || end != value->data() + value->size() || number < 0) {
      throw Error(cat(name, " is '", *value, "', not a number"),
                  "it is set by the launcher: start the program through it");
    }
    return number;
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
