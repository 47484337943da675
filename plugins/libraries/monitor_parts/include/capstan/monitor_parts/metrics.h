#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/monitor.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace monitor {

/// What trackers of experiments get, under the names that Hugging Face's Trainer gives them.

/// train/loss, train/learning_rate, train/grad_norm, train/epoch, train/global_step (steps done), train/step_time_s,
/// and where there are some train/loss_scale, train/auxiliary_loss and what monitors returned for the step before.
Values step_metrics(const StepEnded& step);
/// eval/loss, eval/runtime, eval/samples_per_second and scores, train/epoch, train/global_step; if questions of the
/// training set were asked, eval_train/….
Values eval_metrics(const EvalEnded& eval);
/// train_loss, train_runtime, train_samples_per_second, train_steps_per_second, epoch, and what monitors said.
Values run_metrics(const RunEnded& run);

/// A number as JSON; "NaN", "Infinity" and "-Infinity", quoted, for what JSON does not have.
std::string json_number(double number);
/// An option's value as JSON; null where it has none.
std::string json_value(const config::Value& value);
/// A text as JSON, quoted.
std::string json_text(const std::string& text);

}  // namespace monitor
CAPSTAN_END_NAMESPACE
