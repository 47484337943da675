#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace config {

/// An option's value. monostate = not set.
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                           std::vector<double>, std::vector<std::string>>;

/// Values of some options, by key.
using Preset = std::vector<std::pair<std::string, Value>>;
/// Such sets by name: a layer above the defaults and below config.json and the configuration.
using Presets = std::map<std::string, Preset>;

/// As it would be written in TOML; "-" when not set.
std::string value_text(const Value& value);

/// Where a value comes from. Later layers win over earlier ones.
struct Origin {
  enum class Layer { default_value, preset, model_file, file, command_line };
  Layer layer = Layer::default_value;
  std::string file;  ///< the file that names the value (layers model_file and file)
  int line = 0;      ///< 1-based; 0 = unknown
  /// "configs/a.toml:12", "command line", "default", "preset", "model/config.json".
  std::string text() const;
};

/// A key of a section as the user gave it.
struct Entry {
  std::string key;  ///< may be dotted ("rope.theta")
  Value value;
  Origin origin;
  std::string text = {};  ///< command line only: the value as typed, before it was read as TOML
};

/// One table of the configuration ("train", "strategy.fsdp"), layers already merged.
struct Section {
  std::string path;
  Origin origin;
  std::vector<Entry> entries;
  /// Null when the section does not hold the key.
  const Entry* find(const std::string& key) const;
};

}  // namespace config
CAPSTAN_END_NAMESPACE
