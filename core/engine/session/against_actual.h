#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <optional>
#include <string>

#include "assembly/predict.h"
#include "predict/figures.h"

CAPSTAN_BEGIN_NAMESPACE
namespace plan {

/// What a run measured on the rank that used most, bytes; 0 where it was not.
struct Actual {
  std::int64_t setup = 0;   ///< in tensors on the GPU before the first step
  std::int64_t device = 0;  ///< the most in tensors on the GPU while steps ran
  double step_s = 0;        ///< mean time of a step, the longest left out
};

/// The figures of a GPU that the driver calls so ("NVIDIA H200"); nothing for one of which nothing is known.
std::optional<Figures> figures_of_device(const std::string& description, std::int64_t bytes);

/// A few lines for people: predicted against actual memory, part by part where the parts can be told apart, and the
/// step's time. `predicted_step_s`: 0 where no time is predicted. "" where nothing was predicted, as on CPUs.
std::string against_actual(const assembly::Prediction& prediction, const std::string& device, const Actual& actual,
                           double predicted_step_s);

}  // namespace plan
CAPSTAN_END_NAMESPACE
