#pragma once
#include <capstan/config/options.h>

#include <optional>
#include <string>

namespace tables {

/// The options that name splits of a dataset. Those of a data plugin derive from them.
struct TableOptions {
  std::optional<std::string> dataset;
  std::string config;
  std::optional<std::string> train_split;
  std::optional<std::string> eval_split;

  static void describe(capstan::config::OptionTable<TableOptions>& t);
};

}  // namespace tables
