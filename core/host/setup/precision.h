#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <optional>
#include <string>

#include "setup/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// How the loss is scaled before backward.
struct LossScaling {
  bool on = false;
  bool dynamic = false;
  double initial = 1;
  double min = 1;              ///< dynamic only
  std::int64_t window = 2000;  ///< dynamic only: good steps until it doubles
};

/// What train.loss_scale and its neighbours ask for. Empty: the value is none of the known ones (check_precision says
/// so).
std::optional<LossScaling> loss_scaling_of(const TrainOptions& options);

/// Faults of [train]'s precision and loss_scale options on this device ("cpu", "cuda").
void check_precision(const config::Options<TrainOptions>& train, const std::string& device, Diagnostics& diagnostics);

}  // namespace setup
CAPSTAN_END_NAMESPACE
