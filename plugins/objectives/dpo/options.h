#pragma once
#include "preference_loss.h"

#include <capstan/base/error.h>
#include <capstan/config/options.h>

#include <optional>
#include <string>

namespace dpo {

struct DpoOptions {
  std::string loss = "sigmoid";
  std::string reference = "base";
  std::optional<double> beta;
  double label_smoothing = 0;
  double gamma = 0.5;
  double lambda = 0.1;
  bool per_token = true;

  static void describe(capstan::config::OptionTable<DpoOptions>& t);
};

/// What the options say of the loss. An option that this loss does not use, and that was set nevertheless, is a fault.
Preference preference_of(const capstan::config::Options<DpoOptions>& options, capstan::Diagnostics& diagnostics);

}  // namespace dpo
