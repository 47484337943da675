#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

#include "setup/options.h"
#include "shard/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// Dtypes for a value of train.precision: of computing (activations, gathered copies, raw gradients), of masters and
/// optimizer state, of summed gradients.
///
///     fp32       float32 throughout            fp64   float64 throughout
///     bf16       bfloat16, float32, float32    fp16   float16, float32, float32 (Micikevicius et al. 2018)
///     bf16_pure  bfloat16 throughout
shard::Precision precision_of(const std::string& name, c10::Device device);

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
