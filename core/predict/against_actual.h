#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <optional>
#include <string>

#include "job/job.h"
#include "job/predict.h"
#include "predict/gpu.h"
#include "step_time/figures.h"

CAPSTAN_BEGIN_NAMESPACE
namespace predict {

/// The figures of a GPU that the driver calls so ("NVIDIA H200"); nothing for one of which nothing is known.
std::optional<plan::Figures> figures_of_device(const std::string& description, std::int64_t bytes);

/// A few lines for people: predicted against actual memory, part by part where the parts can be told apart, and the
/// step's time. `predicted_step_s`: 0 where no time is predicted. "" where nothing was predicted, as on CPUs.
std::string against_actual(const job::Prediction& prediction, const std::string& device, const Actual& actual,
                           double predicted_step_s);
/// The same of a job, with the step's time by the figures of the GPU on which it ran.
std::string against_actual(const job::Job& job, const Actual& actual);

}  // namespace predict
CAPSTAN_END_NAMESPACE
