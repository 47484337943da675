#pragma once
/// For strategies that change the products of chosen layers, which an option names by their roles.
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/nn/experts.h>
#include <capstan/nn/layers.h>
#include <capstan/nn/model.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace capstan::strategy {

/// Names of roles (linear_qkv, …, experts), or "all-linear".
using Targets = std::vector<std::string>;

inline bool is_target(const Targets& targets, const std::string& role) {
  return std::any_of(targets.begin(), targets.end(),
                     [&](const std::string& name) { return name == role || name == "all-linear"; });
}

/// Calls fn(linear) for the unit's linear layers but routers, whose products decide where tokens go.
template <class Fn>
void each_linear(const nn::Unit& unit, const Fn& fn) {
  unit.each<nn::Linear>([&](const nn::Linear& linear) {
    if (dynamic_cast<const nn::Router*>(linear.parent()) == nullptr) fn(linear);
  });
}

/// Throws Error with a fault for each name that is no role of the model's. `option` and `where`: its full name, and
/// what sets it.
inline void refuse_unknown(const Targets& targets, const std::vector<std::unique_ptr<nn::Unit>>& units,
                           const std::string& option, const std::string& where) {
  std::vector<std::string> known{"all-linear"};
  const auto is_known = [&](const std::string& role) {
    return std::find(known.begin(), known.end(), role) != known.end();
  };
  for (const auto& unit : units) {
    each_linear(*unit, [&](const nn::Linear& linear) {
      if (!is_known(linear.name())) known.push_back(linear.name());
    });
    if (!unit->all<nn::Experts>().empty() && !is_known("experts")) known.emplace_back("experts");
  }
  Diagnostics faults;
  for (const auto& name : targets) {
    if (is_known(name)) continue;
    faults.add(where, cat(option, " names \"", name, "\", but the model has: ", join(known)), suggestion(name, known));
  }
  faults.throw_if_any();
}

}  // namespace capstan::strategy
