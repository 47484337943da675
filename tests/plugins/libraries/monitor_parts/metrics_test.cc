#include <capstan/monitor_parts/metrics.h>
#include <capstan_catch.h>

#include <limits>

namespace metrics_test {

using namespace capstan::monitor;

TEST_CASE("steps, evaluations and the end have the names that Hugging Face's Trainer gives them") {
  StepEnded step;
  step.step = 4;
  step.loss = 1.5;
  step.lr = 1e-4;
  step.grad_norm = 2;
  step.epoch_progress = 0.5;
  step.step_time_s = 0.25;
  step.values = {{"gpu_util_%", 90}};
  const Values of_step{{"train/loss", 1.5},  {"train/learning_rate", 1e-4}, {"train/grad_norm", 2},
                       {"train/epoch", 0.5}, {"train/global_step", 5},      {"train/step_time_s", 0.25},
                       {"gpu_util_%", 90}};
  CHECK(step_metrics(step) == of_step);
  EvalEnded eval;
  eval.step = 5;
  eval.epoch_progress = 1;
  eval.loss = 0.5;
  eval.samples = 10;
  eval.runtime_s = 2;
  eval.scores = {{"f1", 50}};
  eval.split = "eval";
  const Values of_eval{{"eval/loss", 0.5}, {"eval/runtime", 2}, {"eval/samples_per_second", 5},
                       {"eval/f1", 50},    {"train/epoch", 1},  {"train/global_step", 5}};
  CHECK(eval_metrics(eval) == of_eval);
  eval.split = "train";
  CHECK(eval_metrics(eval).front().first == "eval_train/loss");
  RunEnded run;
  run.steps = 8;
  run.samples = 32;
  run.runtime_s = 4;
  run.mean_loss = 1.25;
  run.epochs = 2;
  run.summary.values = {{"train_samples_per_second", 9}, {"avg_gpu_util_%", 88}};
  const Values of_run{{"train_loss", 1.25},          {"train_runtime", 4}, {"train_samples_per_second", 8},
                      {"train_steps_per_second", 2}, {"epoch", 2},         {"avg_gpu_util_%", 88}};
  CHECK(run_metrics(run) == of_run);
}

TEST_CASE("numbers, texts and options as JSON") {
  CHECK(json_number(0.1) == "0.1");
  CHECK(json_number(std::numeric_limits<double>::quiet_NaN()) == "\"NaN\"");
  CHECK(json_number(-std::numeric_limits<double>::infinity()) == "\"-Infinity\"");
  CHECK(json_text("a \"b\"") == "\"a \\\"b\\\"\"");
  CHECK(json_value({}) == "null");
  CHECK(json_value(true) == "true");
  CHECK(json_value(2.5) == "2.5");
  CHECK(json_value(std::vector<std::string>{"a", "b"}) == "[\"a\",\"b\"]");
}

}  // namespace metrics_test
