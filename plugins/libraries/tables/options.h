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

/// The options of a data plugin that reads tables: which Python decodes them, and where their rows are kept.
template <class T>
void describe_decoding(capstan::config::OptionTable<T>& t, std::string T::*python, std::string T::*decoded) {
  t.add("python", python)
      .doc(
          "the Python 3 with pyarrow (14 or newer) that decodes tables, and with jinja2 for a model's own template; "
          "not set: that of $VIRTUAL_ENV, else python3 of "
          "PATH");
  t.add("decoded", decoded)
      .path()
      .doc(
          "folder for decoded rows, which all ranks of a node map and later runs find again; not set: "
          "$CAPSTAN_CACHE/derived, else $XDG_CACHE_HOME/capstan, else ~/.cache/capstan");
}

}  // namespace tables
