#pragma once
#include <capstan/base/export.h>
#include <capstan/strategy/exporter.h>

#include <memory>
#include <string>
#include <vector>

#include "job/plugins.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// What a strategy writes a run as.
struct Export {
  std::string strategy;  ///< the plugin's name
  std::shared_ptr<const strategy::Exporter> exporter;
};
/// All strategies' exports, in the strategies' order.
std::vector<Export> exports_of(const Strategies& strategies);

/// "--to NAME": how `capstan export` calls them; empty: there are none.
std::string export_options(const Strategies& strategies);

}  // namespace job
CAPSTAN_END_NAMESPACE
