#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/monitor_parts/metrics.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace capstan::monitor {
namespace {

double a_second(std::int64_t amount, double seconds) {
  return seconds > 0 ? static_cast<double>(amount) / seconds : 0.0;
}

}  // namespace

Values step_metrics(const StepEnded& step) {
  Values all{{"train/loss", step.loss},
             {"train/learning_rate", step.lr},
             {"train/grad_norm", step.grad_norm},
             {"train/epoch", step.epoch_progress},
             {"train/global_step", static_cast<double>(step.step + 1)},
             {"train/step_time_s", step.step_time_s}};
  if (step.loss_scale) all.emplace_back("train/loss_scale", *step.loss_scale);
  if (step.auxiliary_loss) all.emplace_back("train/auxiliary_loss", *step.auxiliary_loss);
  all.insert(all.end(), step.values.begin(), step.values.end());
  return all;
}

Values eval_metrics(const EvalEnded& eval) {
  const std::string prefix = eval.split == "train" ? "eval_train/" : "eval/";
  Values all;
  if (eval.loss) all.emplace_back(prefix + "loss", *eval.loss);
  all.emplace_back(prefix + "runtime", eval.runtime_s);
  all.emplace_back(prefix + "samples_per_second", a_second(eval.samples, eval.runtime_s));
  for (const auto& [name, score] : eval.scores) all.emplace_back(prefix + name, score);
  all.emplace_back("train/epoch", eval.epoch_progress);
  all.emplace_back("train/global_step", static_cast<double>(eval.step));
  return all;
}

Values run_metrics(const RunEnded& run) {
  Values all{{"train_loss", run.mean_loss},
             {"train_runtime", run.runtime_s},
             {"train_samples_per_second", a_second(run.samples, run.runtime_s)},
             {"train_steps_per_second", a_second(run.steps, run.runtime_s)},
             {"epoch", run.epochs}};
  for (const auto& value : run.summary.values) {
    const bool known =
        std::any_of(all.begin(), all.end(), [&](const auto& other) { return other.first == value.first; });
    if (!known) all.push_back(value);
  }
  return all;
}

std::string json_number(double number) {
  if (std::isnan(number)) return "\"NaN\"";
  if (std::isinf(number)) return number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return number_text(number);
}

std::string json_text(const std::string& text) { return Json(text).dump(); }

std::string json_value(const config::Value& value) {
  const auto write = [](const auto& held) -> std::string {
    using Held = std::decay_t<decltype(held)>;
    if constexpr (std::is_same_v<Held, std::monostate>) {
      return "null";
    } else if constexpr (std::is_same_v<Held, double>) {
      return json_number(held);
    } else {
      return Json(held).dump();
    }
  };
  return std::visit(write, value);
}

}  // namespace capstan::monitor
