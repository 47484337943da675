#include "predict/against_actual.h"

#include <capstan/base/text.h>

#include <iomanip>
#include <vector>

#include "step_time/step_time.h"

namespace capstan::predict {
namespace {

std::string bytes(std::int64_t number) { return bytes_text(static_cast<double>(number)); }

std::string ratio(double actual, double predicted) {
  return predicted > 0 && actual > 0 ? cat(std::fixed, std::setprecision(2), actual / predicted) : "";
}

std::vector<std::string> memory_row(const char* part, std::int64_t predicted, std::int64_t actual) {
  return {part, bytes(predicted), bytes(actual), ratio(static_cast<double>(actual), static_cast<double>(predicted))};
}

// What the engine allocates before the first step; the optimizer's state comes with the first update.
bool is_there_before_steps(const layout::Footprint& part) {
  return part.when == "always" && part.part != "optimizer state" && part.part != "cuBLAS";
}

}  // namespace

std::optional<plan::Figures> figures_of_device(const std::string& description, std::int64_t bytes) {
  constexpr std::int64_t most_of_40 = std::int64_t{60} << 30;
  const auto has = [&](const char* name) { return description.find(name) != std::string::npos; };
  if (has("H200")) return plan::figures_of("h200-141g");
  if (has("H100") && has("HBM3")) return plan::figures_of("h100-80g");
  if (has("A100-SXM")) return plan::figures_of(bytes < most_of_40 ? "a100-40g" : "a100-80g");
  return {};
}

std::string against_actual(const job::Prediction& prediction, const std::string& device, const Actual& actual,
                           double predicted_step_s) {
  // On CPUs two things are not predicted: a step's time, and the process's memory that is not the engine's.
  if (device == "cpu" || !prediction.activations) return {};
  std::vector<std::vector<std::string>> rows{{"largest rank", "predicted", "actual", "ratio"}};
  const auto all = layout::total_bytes(prediction.footprints, device);
  std::int64_t before = 0;
  for (const auto& part : prediction.footprints) {
    if (part.device == device && is_there_before_steps(part)) before += part.bytes;
  }
  rows.push_back(memory_row("parameters, gradients, buffers", before, actual.setup));
  rows.push_back(
      memory_row("optimizer state, activations, gathered units", all - before, actual.device - actual.setup));
  rows.push_back(memory_row("peak of the GPU's tensors", all, actual.device));
  if (actual.step_s > 0) {
    const auto milliseconds = [](double s) { return cat(std::fixed, std::setprecision(1), s * 1e3, " ms"); };
    rows.push_back({"mean step, without the longest",
                    predicted_step_s > 0 ? milliseconds(predicted_step_s) : "not predicted",
                    milliseconds(actual.step_s), ratio(actual.step_s, predicted_step_s)});
  }
  return table_text(rows);
}

std::string against_actual(const job::Job& job, const Actual& actual) {
  const auto& prediction = job.prediction;
  const auto figures = figures_of_device(actual.gpu, actual.gpu_bytes);
  double step_s = 0;
  if (prediction.work && figures)
    step_s = plan::step_time(prediction.work_of_positions(), job.topology.batch.accumulation, *figures).total();
  return against_actual(prediction, job.config.device, actual, step_s);
}

}  // namespace capstan::predict
