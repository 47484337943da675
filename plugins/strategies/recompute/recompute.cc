// Activation recomputation (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"): a unit, or named
// regions of it, keep their inputs only and run again in backward.
#include "recompute.h"

#include <capstan/base/text.h>

#include <algorithm>

namespace recompute {

using namespace capstan;

namespace {

template <class List, class Item>
bool contains(const List& list, const Item& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

std::vector<std::string> region_names(const std::vector<std::unique_ptr<nn::Unit>>& units) {
  std::vector<std::string> names;
  for (const auto& unit : units) {
    unit->each<nn::Region>([&](const nn::Region& region) {
      if (!contains(names, region.name())) names.push_back(region.name());
    });
  }
  return names;
}

}  // namespace

void RecomputeOptions::describe(config::OptionTable<RecomputeOptions>& t) {
  t.add("every", &RecomputeOptions::every)
      .min(1)
      .doc(
          "recompute every Nth unit; 1: each. Never the model's last one: its backward begins right after its forward, "
          "so nothing would be saved");
  t.add("regions", &RecomputeOptions::regions)
      .doc("only these parts of the units, such as [\"attention\"]; empty: whole units");
}

void Recompute::claim(strategy::Claims& claims) const { claims.exclusive("unit recompute"); }

void Recompute::structure(std::vector<std::unique_ptr<nn::Unit>>& units) {
  Diagnostics diagnostics;
  check_regions(region_names(units), diagnostics);
  chosen_.clear();
  for (std::size_t i = 0; i + 1 < units.size(); ++i) {
    if ((i + 1) % static_cast<std::size_t>(options_->every) == 0) chosen_.push_back(units[i].get());
  }
  if (chosen_.empty()) {
    diagnostics.add(options_.where(&RecomputeOptions::every),
                    cat(options_.name(&RecomputeOptions::every), " ", options_->every, " leaves nothing to recompute: ",
                        "without the last one the model has ", units.size() - 1, " units"),
                    cat("use at most ", units.size() - 1, ", or remove this strategy"));
  }
  diagnostics.throw_if_any();
}

void Recompute::check_regions(const std::vector<std::string>& known, Diagnostics& diagnostics) const {
  const auto where = options_.where(&RecomputeOptions::regions);
  const auto option = options_.name(&RecomputeOptions::regions);
  if (known.empty() && !options_->regions.empty()) {
    diagnostics.add(where, cat(option, " is set, but this model names no regions"),
                    "remove it: whole units are then recomputed");
    return;
  }
  for (const auto& name : options_->regions) {
    if (contains(known, name)) continue;
    diagnostics.add(where, cat(option, " names '", name, "', but this model's regions are ", join(known)),
                    suggestion(name, known));
  }
}

void Recompute::place(nn::Unit& unit, const strategy::Placement&) {
  if (!contains(chosen_, &unit)) return;
  unit.each<nn::Region>([&](nn::Region& region) {
    if (!contains(options_->regions, region.name())) return;
    region.around.fill("recompute", [](const nn::Region::Body& body, const at::Tensor& input) {
      return strategy::recomputed(body, input);
    });
  });
}

bool Recompute::recompute(const nn::Unit& unit, std::size_t) {
  return options_->regions.empty() && contains(chosen_, &unit);
}

}  // namespace recompute

CAPSTAN_STRATEGY("recompute", "0.1.0",
                 "runs units, or regions of them, again in backward instead of keeping activations",
                 recompute::Recompute, recompute::RecomputeOptions)
