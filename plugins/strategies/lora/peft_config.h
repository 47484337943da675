#pragma once
#include <capstan/base/error.h>
#include <capstan/config/file_keys.h>
#include <capstan/nn/adapter.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <regex>
#include <string>
#include <vector>

namespace lora {

inline constexpr const char* peft_config_file = "adapter_config.json";

/// Every field of LoraConfig in peft 0.21, and those of older versions that files still have.
capstan::config::FileKeys peft_keys();

/// Modules as peft selects them.
struct PeftSelection {
  std::vector<std::string> names;     ///< each means the module itself and every module whose path ends so
  std::optional<std::regex> pattern;  ///< instead of names: of the whole name

  bool has(const std::string& module) const;
};

/// What adapter_config.json says of an adapter. All that reads a PEFT folder takes it from here; absent keys have
/// peft's defaults.
struct PeftConfig {
  std::string path;
  double rank = 8;
  double alpha = 8;
  bool rank_stabilised = false;
  bool all_linear = false;  ///< instead of `targets`
  PeftSelection targets;
  PeftSelection excluded;
  std::vector<std::int64_t> layers;       ///< whose modules get adapters; empty: all
  std::vector<std::regex> layer_numbers;  ///< the first that matches a module's name finds its layer
  std::vector<std::string> modules_to_save;
  PeftSelection parameters;  ///< target_parameters: names of parameters, or ends of them

  /// Adds a fault for each key that changes what peft computes and that Capstan does not compute, for each unknown key
  /// that is not off, and for values of the wrong kind.
  static PeftConfig read(const std::filesystem::path& file, capstan::Diagnostics& faults);

  /// Adds a fault where rank, alpha or scale are not those of the run's adapters.
  void compare(const capstan::nn::Adapter& adapter, capstan::Diagnostics& faults) const;
  /// Whether peft puts an adapter next to the module of this full name; it passes over tensors of other adapters.
  bool adapts(const std::string& module) const;
  /// The same of a parameter, which peft wraps in place of its module.
  bool adapts_parameter(const std::string& parameter) const { return parameters.has(parameter); }
  /// Whether peft reads values of its own for this module.
  bool saves(const std::string& module) const;
};

}  // namespace lora
