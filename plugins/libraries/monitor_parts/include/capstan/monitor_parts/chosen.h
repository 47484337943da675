#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/config/options.h>
#include <capstan/monitor/planned.h>

#include <cstdint>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace monitor {

/// Steps or ranks that an option chooses, counted from 0.
struct ChosenNumbers {
  std::string option;  ///< "monitor.trace.steps"
  std::string where;   ///< what sets it
  bool is_default = false;
  std::vector<std::int64_t> numbers;
};

template <class T>
ChosenNumbers chosen_numbers(const config::Options<T>& options, std::vector<std::int64_t> T::*member) {
  return {options.name(member), options.where(member), (*options).*member == T{}.*member, (*options).*member};
}

/// A fault where numbers are not below `count`, the number of `thing`s ("step"); 0: not known, and only negative ones
/// are refused. For a default it suffices that one of its numbers is below `count`.
void check_chosen(const ChosenNumbers& chosen, std::int64_t count, const std::string& thing, Diagnostics& diagnostics);

/// Both of them, for a monitor that records chosen steps on chosen ranks.
void check_chosen_steps(const ChosenNumbers& steps, const ChosenNumbers& ranks, const PlannedRun& run,
                        Diagnostics& diagnostics);

}  // namespace monitor
CAPSTAN_END_NAMESPACE
