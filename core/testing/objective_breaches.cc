#include <capstan/objective/objective.h>
#include <capstan/testing.h>

#include <algorithm>
#include <set>

#include "testing/breaches.h"

namespace capstan::testing {

std::string objective_breaches(const objective::Objective& objective, const Setting& setting) {
  Breaches breaches;
  const auto plan = breaches.result("plan()", [&] { return objective.plan(); });
  const auto trained =
      std::count_if(plan.passes.begin(), plan.passes.end(), [](const auto& one) { return one.gradient; });
  breaches.unless(trained == 1, "plan() has ", trained, " passes with a gradient, not 1");
  breaches.unless(!plan.terms.empty(), "plan() has no term: nothing is minimised");
  for (const auto& term : plan.terms) {
    breaches.unless(term.count < plan.counts.size(), "a term is divided by count ", term.count, " of ",
                    plan.counts.size());
  }
  std::set<std::string> names;
  for (const auto& figure : plan.figures) {
    breaches.unless(figure.count < plan.counts.size(), "figure '", figure.name, "' is divided by count ", figure.count,
                    " of ", plan.counts.size());
    breaches.unless(!figure.name.empty() && names.insert(figure.name).second, "plan() has the figure '", figure.name,
                    "' twice, or without a name");
  }
  if (!breaches.text().empty()) return breaches.text();
  // Sums over micro-batches and ranks in another order: some hundred roundings of float64.
  constexpr double tolerance = 1e-10;
  breaches.result("training", [&] {
    const auto whole = train(setting);
    auto divided = setting;
    divided.overrides.insert(divided.overrides.end(), {"train.accumulation=4", "train.micro_batch=6"});
    auto shared = setting;
    shared.world = 2;
    for (const auto& [how, other] : {std::pair{"in four micro-batches", divided}, {"on two ranks", shared}}) {
      const auto differs = differences(train(other), whole, tolerance);
      breaches.unless(differs.empty(), "the same samples ", how, " teach something else:\n", differs);
    }
  });
  return breaches.text();
}

}  // namespace capstan::testing
