#pragma once
#include <capstan/base/error.h>

#include <string>
#include <utility>

namespace capstan::setup {

/// Runs one step of preparing; what it throws joins the other faults, so that a user sees all at once. `where`: the
/// place in the configuration, for faults that name none themselves.
template <class Step>
void collect(Diagnostics& diagnostics, const Step& step, const std::string& where = {}) {
  try {
    step();
  } catch (const Error& error) {
    auto list = error.diagnostics();
    for (const auto& context : error.context()) {
      auto& end = list.back().fix.empty() ? list.back().what : list.back().fix;
      end += "\n    while " + context;
    }
    for (auto& diagnostic : list) {
      if (diagnostic.where.empty()) diagnostic.where = where;
      diagnostics.add(std::move(diagnostic));
    }
  }
}

}  // namespace capstan::setup
