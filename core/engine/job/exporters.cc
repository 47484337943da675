#include "job/exporters.h"

#include <capstan/base/text.h>
#include "plugin/guard.h"

namespace capstan::job {

std::vector<Export> exports_of(const Strategies& strategies) {
  std::vector<Export> all;
  for (const auto& made : strategies) {
    for (auto& exporter : plugin::guard(made.name, "exporters", [&] { return made.object->exporters(); }))
      all.push_back({made.name, std::move(exporter)});
  }
  return all;
}

std::string export_options(const Strategies& strategies) {
  std::vector<std::string> options;
  for (const auto& one : exports_of(strategies)) options.push_back("--to " + one.exporter->name());
  return join(options, " or ");
}

}  // namespace capstan::job
