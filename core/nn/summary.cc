#include <capstan/base/text.h>
#include <capstan/nn/summary.h>

#include <set>

namespace capstan::nn {

Summary summarise(const std::vector<std::unique_ptr<Unit>>& units) {
  Summary summary;
  std::set<const Weight*> counted;
  for (const auto& unit : units) {
    std::int64_t parameters = 0;
    for (const auto& weight : unit->weights()) {
      if (!counted.insert(weight.get()).second) continue;
      parameters += weight->numel();
      if (weight->trainable()) summary.trainable += weight->numel();
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

std::string Summary::text() const {
  std::vector<std::string> sum;
  for (const auto& part : parts) {
    sum.push_back(part.units == 1 ? cat(part.name, " ", thousands(part.parameters))
                                  : cat(part.units, " ", part.name, " x ", thousands(part.parameters)));
  }
  const auto share = trainable == parameters ? std::string() : cat(" (", thousands(trainable), " trainable)");
  return cat(thousands(parameters), " parameters", share, " = ", join(sum, " + "));
}

}  // namespace capstan::nn
