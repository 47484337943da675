#include <capstan/base/counted.h>
#include <capstan/base/text.h>
#include <capstan/monitor_parts/chosen.h>

namespace capstan::monitor {

void check_chosen(const ChosenNumbers& chosen, std::int64_t count, const std::string& thing, Diagnostics& diagnostics) {
  std::vector<std::string> absent;
  for (const auto number : chosen.numbers) {
    if (number < 0 || (count > 0 && number >= count)) absent.push_back(std::to_string(number));
  }
  if (absent.empty() || (chosen.is_default && absent.size() < chosen.numbers.size())) return;
  const auto range = count == 1  ? cat("only ", thing, " 0")
                     : count > 0 ? cat(thing, "s from 0 to ", count - 1)
                                 : cat(thing, "s from 0 on");
  diagnostics.add(chosen.where,
                  cat(chosen.option, " names ", plural(absent.size(), thing, thing + "s"), " ", join(absent),
                      count > 0 ? cat(", but the run has ", counted(count, thing)) : ""),
                  cat("name ", range, thing == "rank" ? ", or start more: -n of run and of check" : ""));
}

void check_chosen_steps(const ChosenNumbers& steps, const ChosenNumbers& ranks, const PlannedRun& run,
                        Diagnostics& diagnostics) {
  check_chosen(steps, run.steps, "step", diagnostics);
  check_chosen(ranks, run.ranks, "rank", diagnostics);
}

}  // namespace capstan::monitor
