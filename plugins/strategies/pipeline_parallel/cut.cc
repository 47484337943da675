#include "cut.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

namespace pipeline_parallel {

using namespace capstan;

namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();

UnitCost cost_of(const nn::Unit& unit) {
  std::set<const nn::Weight*> looked_up, experts;
  double all = 1, seen = 1;  // experts of a layer, and those that a token sees
  unit.each<nn::Embedding>([&](const nn::Embedding& layer) { looked_up.insert(layer.weight().get()); });
  unit.each<nn::Router>([&](const nn::Router& layer) { seen = static_cast<double>(layer.experts_per_token()); });
  unit.each<nn::Experts>([&](const nn::Experts& layer) {
    experts.insert(layer.gate_up().get());
    experts.insert(layer.down().get());
    all = static_cast<double>(layer.gate_up()->records().front().shape.front());
  });
  UnitCost cost;
  for (const auto& weight : unit.weights()) {
    const auto elements = static_cast<double>(weight->numel());
    cost.elements += elements;
    if (weight->records().front().shape.size() < 2 || looked_up.count(weight.get()) > 0) continue;
    cost.work += experts.count(weight.get()) > 0 ? elements * seen / all : elements;
  }
  return cost;
}

// The sums of a part of the units.
class Sums {
 public:
  Sums(const std::vector<UnitCost>& units, double UnitCost::*what) : until_(units.size() + 1, 0) {
    for (std::size_t i = 0; i < units.size(); ++i) until_[i + 1] = until_[i] + units[i].*what;
  }
  double operator()(std::size_t begin, std::size_t end) const { return until_[end] - until_[begin]; }

 private:
  std::vector<double> until_;
};

// A stage's cost by its first unit and the unit after its last.
using Cost = std::function<double(std::size_t begin, std::size_t end)>;

struct Cut {
  double most = 0;  // the largest stage's cost
  std::vector<std::size_t> first_units;
};

// By the best cuts of the units' beginning into fewer stages.
Cut cut_of(std::size_t units, std::size_t stages, const Cost& cost) {
  std::vector<std::vector<double>> most(stages + 1, std::vector<double>(units + 1, unbounded));
  std::vector<std::vector<std::size_t>> first(stages + 1, std::vector<std::size_t>(units + 1, 0));
  most[0][0] = 0;
  for (std::size_t stage = 1; stage <= stages; ++stage) {
    for (std::size_t end = stage; end <= units; ++end) {
      for (std::size_t begin = stage - 1; begin < end; ++begin) {
        const auto here = std::max(most[stage - 1][begin], cost(begin, end));
        if (here >= most[stage][end]) continue;
        most[stage][end] = here;
        first[stage][end] = begin;
      }
    }
  }
  Cut cut{most[stages][units], std::vector<std::size_t>(stages)};
  for (std::size_t stage = stages, end = units; stage > 0; --stage)
    end = cut.first_units[stage - 1] = first[stage][end];
  return cut;
}

}  // namespace

std::vector<UnitCost> costs_of(const Units& units) {
  std::vector<UnitCost> costs;
  for (const auto& unit : units) costs.push_back(cost_of(*unit));
  return costs;
}

std::vector<std::size_t> balanced(const std::vector<UnitCost>& units, std::size_t stages) {
  const Sums work(units, &UnitCost::work), elements(units, &UnitCost::elements);
  const auto most = cut_of(units.size(), stages, [&](auto begin, auto end) { return work(begin, end); }).most;
  const auto within = most * (1 + 1e-9);  // sums of the same numbers in another order
  return cut_of(units.size(), stages,
                [&](auto begin, auto end) { return work(begin, end) <= within ? elements(begin, end) : unbounded; })
      .first_units;
}

bool trains_products(const Units& units) {
  bool trains = false;
  for (const auto& unit : units) {
    unit->each<nn::Linear>([&](const nn::Linear& layer) { trains = trains || layer.weight()->trainable(); });
    unit->each<nn::Experts>([&](const nn::Experts& layer) {
      trains = trains || layer.gate_up()->trainable() || layer.down()->trainable();
    });
  }
  return trains;
}

}  // namespace pipeline_parallel
