#include "nn/model_summary.h"
#include <capstan/base/text.h>

#include <set>

namespace capstan::nn {

namespace {

template <class Size>
ModelSummary summarise_by(const std::vector<std::unique_ptr<Unit>>& units, const Size& size) {
  ModelSummary summary;
  std::set<const Weight*> counted;
  for (const auto& unit : units) {
    std::int64_t parameters = 0;
    for (const auto& weight : unit->weights()) {
      if (!counted.insert(weight.get()).second) continue;
      const std::int64_t elements = size(*weight);
      parameters += elements;
      if (weight->trainable()) summary.trainable += elements;
    }
    summary.parameters += parameters;
    const auto kind = unit->name().substr(0, unit->name().find('.'));
    auto& parts = summary.parts;
    if (parts.empty() || parts.back().name != kind || parts.back().parameters != parameters)
      parts.push_back({kind, 0, parameters});
    ++parts.back().units;
  }
  return summary;
}

}  // namespace

ModelSummary summarise(const std::vector<std::unique_ptr<Unit>>& units) {
  return summarise_by(units, [](const Weight& weight) { return weight.numel(); });
}

ModelSummary summarise(const std::vector<std::unique_ptr<Unit>>& units, const layout::Mesh& mesh, int rank) {
  return summarise_by(units, [&](const Weight& weight) {
    std::int64_t elements = 0;
    for (const auto& record : weight.records()) elements += record.compute.box(record.shape, mesh, rank).numel();
    return elements;
  });
}

std::string ModelSummary::text() const {
  std::vector<std::string> sum;
  for (const auto& part : parts) {
    sum.push_back(part.units == 1 ? cat(part.name, " ", thousands(part.parameters))
                                  : cat(part.units, " ", part.name, " x ", thousands(part.parameters)));
  }
  const auto share = trainable == parameters ? std::string() : cat(" (", thousands(trainable), " trainable)");
  return cat(thousands(parameters), " parameters", share, " = ", join(sum, " + "));
}

}  // namespace capstan::nn
