#pragma once
#include <capstan/base/export.h>

#include <c10/core/Device.h>

#include <string>

#include "shard/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// Dtypes for a value of train.precision: of computing (activations, gathered copies, raw gradients), of masters and
/// optimizer state, of summed gradients.
///
///     fp32       float32 throughout            fp64   float64 throughout
///     bf16       bfloat16, float32, float32    fp16   float16, float32, float32 (Micikevicius et al. 2018)
///     bf16_pure  bfloat16 throughout
shard::Precision precision_of(const std::string& name, c10::Device device);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
