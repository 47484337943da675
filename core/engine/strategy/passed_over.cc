#include "strategy/passed_over.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <map>

namespace capstan::strategy {

std::string passed_over(const std::vector<nn::Unit*>& units) {
  std::map<std::string, std::vector<std::string>> layers;  // by who fills which port
  for (const auto* unit : units) {
    unit->each<nn::Layer>([&](const nn::Layer& layer) {
      for (const auto* port : layer.ports()) {
        if (port->is_passed_over())
          layers[cat("'", port->owner(), "' fills port '", port->name(), "' of layer ")].push_back(layer.path());
      }
    });
  }
  std::vector<std::string> lines;
  for (const auto& [what, where] : layers)
    lines.push_back(cat(what, where.front(), where.size() > 1 ? cat(" and of ", where.size() - 1, " more") : ""));
  if (lines.empty()) return {};
  return cat(join(lines, "; "), ", and the model's forward never asks it: what it does would be missing in silence");
}

void refuse_unasked(const nn::Unit& unit, const layout::Mesh& mesh) {
  if (mesh.size(layout::Axis::cp) > 1) return;
  unit.each<nn::AttentionCore>([](const nn::AttentionCore& attention) {
    if (!attention.around) return;
    throw Error(cat("'", attention.around.owner(), "' fills port 'around' of layer ", attention.path(),
                    ", which is asked only where ranks share the columns of rows, and here none do"),
                "fill it only where the mesh has cp above 1; what attention computes on one rank too belongs into a "
                "layer of the model's own (docs/plugins.md, \"Layers\")");
  });
}

}  // namespace capstan::strategy
