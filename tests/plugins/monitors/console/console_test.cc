#include "plugins/monitors/console/lines.h"
#include "plugins/monitors/console/screen.h"

#include <capstan_catch.h>

#include <limits>

using namespace capstan::monitor;
using namespace console;

namespace {

// The workshop's NeMo run: 250 steps of a global batch of 8 within one epoch of SQuAD.
RunStarted workshop_run() {
  RunStarted run;
  run.name = "llama-lora";
  run.folder = "runs/llama-lora";
  run.world_size = 2;
  run.data_parallel_size = 2;
  run.device = "cuda";
  run.backend = "nccl";
  run.hosts = {"gpu1", "gpu1"};
  run.parameters = 8049135616;
  run.trainable_parameters = 18874368;
  run.steps = 250;
  run.steps_per_epoch = 10949;
  run.global_batch = 8;
  run.micro_batch = 1;
  run.accumulation = 4;
  return run;
}

StepEnded step(std::int64_t number, double lr, double loss, double seconds) {
  StepEnded step;
  step.step = number;
  step.steps = 250;
  step.lr = lr;
  step.loss = loss;
  step.step_time_s = seconds;
  step.samples = 8;
  step.consumed_samples = 8 * (number + 1);
  step.epoch_progress = static_cast<double>(number + 1) / 250;
  return step;
}

EvalEnded evaluation(double loss, double runtime, double epoch) {
  EvalEnded eval;
  eval.split = "eval";
  eval.loss = loss;
  eval.runtime_s = runtime;
  eval.samples = 50;
  eval.epoch_progress = epoch;
  return eval;
}

const std::string erase = "\r\033[K";

}  // namespace

TEST_CASE("the step lines of the workshop's runs") {
  const auto run = workshop_run();
  CHECK(step_line(step(0, 1e-4 / 51, 1.31512, 7.12588), run, {}) ==
        "Training epoch 0, iteration 0/249 | lr: 1.961e-06 | global_batch_size: 8 | global_step: 0 | "
        "reduced_train_loss: 1.315 | train_step_timing in s: 7.126");
  CHECK(step_line(step(1, 2e-4 / 51, 1.6529, 2.5051), run, {}) ==
        "Training epoch 0, iteration 1/249 | lr: 3.922e-06 | global_batch_size: 8 | global_step: 1 | "
        "reduced_train_loss: 1.653 | train_step_timing in s: 2.505 | consumed_samples: 16");
  CHECK(step_line(step(249, 6.1681e-09, 0.10581, 1.6078), run, 0.194) ==
        "Training epoch 0, iteration 249/249 | lr: 6.168e-09 | global_batch_size: 8 | global_step: 249 | "
        "reduced_train_loss: 0.1058 | train_step_timing in s: 1.608 | consumed_samples: 2000 | val_loss: 0.194");
}

TEST_CASE("iterations count within each epoch, up to its last") {
  auto run = workshop_run();
  run.steps_per_epoch = 100;
  auto later = step(205, 1e-4, 1, 1);
  later.epoch = 2;
  CHECK(step_line(later, run, {}).starts_with("Training epoch 2, iteration 5/49 | lr: 0.0001 |"));
  auto middle = step(199, 1e-4, 1, 1);
  middle.epoch = 1;
  CHECK(step_line(middle, run, {}).starts_with("Training epoch 1, iteration 99/99 |"));
}

TEST_CASE("the summaries of the workshop's runs") {
  CHECK(eval_line(evaluation(1.29651, 1.2687, 1.0)) ==
        "{'eval_loss': 1.2965, 'eval_runtime': 1.2687, 'eval_samples_per_second': 39.41, 'epoch': 1.0}");
  CHECK(eval_line(evaluation(1.581, 1.26895, 2.0)) ==
        "{'eval_loss': 1.5810, 'eval_runtime': 1.2690, 'eval_samples_per_second': 39.403, 'epoch': 2.0}");
  RunEnded end;
  end.steps = 93;
  end.runtime_s = 125.2999;
  end.mean_loss = 0.70391;
  end.samples = 1500;
  end.epochs = 2.93;
  CHECK(run_line(end) ==
        "{'train_runtime': 125.2999, 'train_samples_per_second': 11.971, 'train_steps_per_second': 0.742, "
        "'train_loss': 0.7039, 'epoch': 2.93}");
}

TEST_CASE("scores stand in the evaluation's summary, and questions of the training set have keys of their own") {
  auto eval = evaluation(0.5, 2, 10);
  eval.scores = {{"exact_match", 61.25}, {"f1", 70.123456}};
  eval.split = "train";
  CHECK(eval_line(eval) ==
        "{'eval_train_loss': 0.5000, 'eval_train_runtime': 2.0000, 'eval_train_samples_per_second': 25.0, "
        "'eval_train_exact_match': 61.25, 'eval_train_f1': 70.1235, 'epoch': 10.0}");
  eval.loss.reset();
  CHECK(eval_line(eval).starts_with("{'eval_train_runtime': 2.0000, "));
}

TEST_CASE("numbers that are none, and no time at all, are still shown") {
  auto eval = evaluation(std::numeric_limits<double>::quiet_NaN(), 0, 1);
  CHECK(eval_line(eval) == "{'eval_loss': nan, 'eval_runtime': 0.0000, 'eval_samples_per_second': 0.0, 'epoch': 1.0}");
}

TEST_CASE("a run introduces itself") {
  auto run = workshop_run();
  CHECK(start_lines(run) ==
        "Run llama-lora: 2 ranks, device cuda, backend nccl\n"
        "Steps: 10,949 per epoch, 250 in all");
  run.hosts = {"gpu1", "gpu2"};
  CHECK(start_lines(run).starts_with("Run llama-lora: 2 ranks on 2 hosts, device"));
  run.world_size = 1;
  run.hosts = {"gpu1"};
  CHECK(start_lines(run).starts_with("Run llama-lora: 1 rank, device"));
}

TEST_CASE("the bar shows how far, how fast and how long still") {
  CHECK(bar_line(step(124, 1e-4, 1.31512, 9), 0.5) ==
        "step 125/250 [##########----------]  50% | epoch 0.50 | loss 1.315 | 16.0 samples/s | ETA 1:03");
  CHECK(bar_line(step(249, 1e-4, 1.31512, 9), 0.5) ==
        "step 250/250 [####################] 100% | epoch 1.00 | loss 1.315 | 16.0 samples/s | ETA 0:00");
  CHECK(bar_line(step(248, 1e-4, 1, 9), 0.5).find(" 99% ") != std::string::npos);
  CHECK(bar_line(step(0, 1e-4, 1, 9), 0.5).starts_with("step 1/250 [--------------------]   0% |"));
}

TEST_CASE("into a file: every N-th step and the last, a line each") {
  Screen screen({.every = 100});
  CHECK(screen.run_started(workshop_run(), 0) == start_lines(workshop_run()) + "\n");
  std::vector<std::int64_t> shown;
  for (std::int64_t s = 0; s < 250; ++s) {
    const auto text = screen.step_ended(step(s, 1e-4, 1, 1));
    if (text.empty()) continue;
    shown.push_back(s);
    CHECK(text == step_line(step(s, 1e-4, 1, 1), workshop_run(), {}) + "\n");
  }
  CHECK(shown == std::vector<std::int64_t>{0, 100, 200});
  // The last step's line waits for what follows it.
  CHECK(screen.run_ended({}, 0).starts_with(step_line(step(249, 1e-4, 1, 1), workshop_run(), {}) + "\n"));
}

TEST_CASE("val_loss is the last evaluation's, once there was one on the evaluation set") {
  Screen screen({});
  screen.run_started(workshop_run(), 0);
  const auto ended = [&](std::int64_t s) { return screen.step_ended(step(s, 1e-4, 1, 1)); };
  CHECK(ended(0).find("val_loss") == std::string::npos);
  auto on_training_questions = evaluation(9, 1, 1);
  on_training_questions.split = "train";
  CHECK(screen.eval_ended(on_training_questions) == eval_line(on_training_questions) + "\n");
  CHECK(ended(1).find("val_loss") == std::string::npos);
  screen.eval_ended(evaluation(0.194, 1, 1));
  CHECK(ended(2).ends_with(" | val_loss: 0.194\n"));
}

TEST_CASE("an evaluation that is due after the last step comes before its line") {
  Screen screen({});
  screen.run_started(workshop_run(), 0);
  screen.eval_ended(evaluation(0.5, 1, 0.5));
  CHECK(screen.step_ended(step(249, 1e-4, 1, 1)).empty());
  const auto text = screen.eval_ended(evaluation(0.194, 1, 1));
  CHECK(text ==
        step_line(step(249, 1e-4, 1, 1), workshop_run(), 0.194) + "\n" + eval_line(evaluation(0.194, 1, 1)) + "\n");
  CHECK(screen.run_ended({}, 0) == run_line({}) + "\n");
}

TEST_CASE("on a terminal a bar is drawn over itself, and gives way to lines") {
  auto run = workshop_run();
  run.output_is_terminal = true;
  Screen screen({});
  screen.run_started(run, 0);
  CHECK(screen.step_ended(step(0, 1e-4, 1, 9)) == erase + bar_line(step(0, 1e-4, 1, 9), 9));
  // The first step is no measure of the others.
  CHECK(screen.step_ended(step(1, 1e-4, 1, 2)) == erase + bar_line(step(1, 1e-4, 1, 2), 2));
  CHECK(screen.step_ended(step(2, 1e-4, 1, 4)) == erase + bar_line(step(2, 1e-4, 1, 4), 3));
  const auto eval = evaluation(1, 1, 1);
  CHECK(screen.eval_ended(eval) == erase + eval_line(eval) + "\n");
  CHECK(screen.eval_ended(eval) == eval_line(eval) + "\n");
  CHECK(screen.step_ended(step(249, 1e-4, 1, 3)).empty());
  RunEnded end;
  end.weights = "runs/llama-lora/weights";
  CHECK(screen.run_ended(end, 0) ==
        bar_line(step(249, 1e-4, 1, 3), 3) + "\n" + run_line(end) + "\nWeights: runs/llama-lora/weights\n");
}

TEST_CASE("the option decides before the terminal does") {
  auto terminal = workshop_run();
  terminal.output_is_terminal = true;
  Screen lines({.every = 1, .bar = "off"});
  lines.run_started(terminal, 0);
  CHECK(lines.step_ended(step(0, 1e-4, 1, 1)).starts_with("Training epoch 0"));
  Screen bar({.every = 1, .bar = "on"});
  bar.run_started(workshop_run(), 0);
  CHECK(bar.step_ended(step(0, 1e-4, 1, 1)).starts_with(erase + "step 1/250"));
}
