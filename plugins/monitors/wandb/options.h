#pragma once
#include <capstan/config/options.h>

#include <functional>
#include <optional>
#include <string>

namespace wandb {

struct WandbOptions {
  std::optional<std::string> mode = {};
  std::string project = {};
  std::string name = {};
  std::optional<std::string> folder = {};
  double system_interval_s = 10;
  std::string python = {};
  double wait_s = 60;

  static void describe(capstan::config::OptionTable<WandbOptions>& t);
};

/// Looks up a variable of the environment; may be null, which has none.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
/// Empty where it is not set.
std::string variable(const Environment& environment, const char* name);

enum class Mode {
  disabled,  ///< nothing is written
  offline,   ///< a folder
  online     ///< a folder, which is sent while it is written
};

/// WANDB_MODE=disabled switches all off; else the option says it, and where that is not set, WANDB_MODE=online.
Mode mode_of(const WandbOptions& options, const Environment& environment);

}  // namespace wandb
