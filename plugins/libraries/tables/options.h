#pragma once
#include <capstan/config/options.h>

#include <optional>
#include <string>

namespace tables {

/// The options of a data plugin that reads tables: which splits of a dataset, which Python decodes them, and where
/// their rows are kept. The plugin's own options derive from them.
struct TableOptions {
  std::optional<std::string> dataset;
  std::string config;
  std::optional<std::string> train_split;
  std::optional<std::string> eval_split;
  std::string python;
  std::string decoded;

  static void describe(capstan::config::OptionTable<TableOptions>& t);
  static void describe_dataset(capstan::config::OptionTable<TableOptions>& t);
  static void describe_decoding(capstan::config::OptionTable<TableOptions>& t);
};

}  // namespace tables
