#include "setup/precision.h"

#include <capstan/base/text.h>

#include <cmath>

namespace capstan::setup {

std::optional<LossScaling> loss_scaling_of(const TrainOptions& options) {
  const auto& asked = options.loss_scale;
  if (asked == "none" || (asked == "auto" && options.precision != "fp16")) return LossScaling{};
  if (asked == "auto" || asked == "dynamic") {
    return LossScaling{true, true, options.loss_scale_init, options.loss_scale_min, options.loss_scale_window};
  }
  const auto number = number_in<double>(asked);
  if (!number || !std::isfinite(*number) || *number <= 0) return std::nullopt;
  LossScaling fixed;
  fixed.on = true;
  fixed.initial = *number;
  return fixed;
}

void check_precision(const config::Options<TrainOptions>& train, const std::string& device, Diagnostics& diagnostics) {
  if (train->precision == "fp16" && device == "cpu") {
    diagnostics.add(
        train.where(&TrainOptions::precision), "train.precision is \"fp16\": fp16 compute without a GPU",
        R"(use "bf16" or "fp32" here; to check a configuration for a machine with GPUs, set run.device = "cuda")");
  }
  const auto scaling = loss_scaling_of(*train);
  if (!scaling) {
    diagnostics.add(train.where(&TrainOptions::loss_scale), cat("train.loss_scale is \"", train->loss_scale, "\""),
                    R"(give "auto", "none", "dynamic" or a number above 0, such as "1024")");
    return;
  }
  if (scaling->dynamic && scaling->min > scaling->initial) {
    diagnostics.add(train.where(&TrainOptions::loss_scale_min),
                    cat("train.loss_scale_min ", number_text(scaling->min), " is above train.loss_scale_init ",
                        number_text(scaling->initial)),
                    "lower the one or raise the other");
  }
  if (scaling->dynamic || train->loss_scale == "auto") return;
  const auto refuse = [&](auto member) {
    if (!train.is_set(member)) return;
    diagnostics.add(train.where(member),
                    cat(train.name(member), " has no effect: train.loss_scale is \"", train->loss_scale, "\""),
                    "remove it, or set train.loss_scale = \"dynamic\"");
  };
  refuse(&TrainOptions::loss_scale_init);
  refuse(&TrainOptions::loss_scale_window);
  refuse(&TrainOptions::loss_scale_min);
}

}  // namespace capstan::setup
