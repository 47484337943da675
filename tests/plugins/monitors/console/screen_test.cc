#include "plugins/monitors/console/screen.h"

#include <capstan_catch.h>

#include <optional>

#include "plugins/monitors/console/events.h"
#include "plugins/monitors/console/lines.h"

using namespace capstan::monitor;
using namespace console;
using namespace console_test;

namespace {

const std::string erase = "\r\033[K";

}  // namespace

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

TEST_CASE("where the start's time went is shown where it is asked for") {
  auto run = workshop_run();
  run.start_s = {{"engine", 1}};
  Screen silent({});
  silent.run_started(run, 0);
  CHECK(silent.start_table(2).empty());
  Screen screen({.start_table = true});
  screen.run_started(run, 0);
  CHECK(screen.start_table(2) == start_table(run.start_s, 2) + "\n");
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

TEST_CASE("NeMo's style: table, steps, val_loss on the last one, the block") {
  Screen screen({.style = "nemo"});
  CHECK_THAT(screen.run_started(small_run(), 1764930264),
             Catch::Matchers::StartsWith("===============================\n Job started\n") &&
                 Contains("Argument Name") && Contains("Run a: 1 rank"));
  CHECK(screen.step_ended(step(0, 2)) == step_line(step(0, 2), small_run(), {}) + "\n");
  CHECK(screen.step_ended(step(3, 2)).empty());
  EvalEnded eval;
  eval.split = "eval";
  eval.loss = 0.194;
  CHECK(screen.eval_ended(eval) == step_line(step(3, 2), small_run(), 0.194) + "\n");  // and no dictionary
  RunEnded end;
  end.runtime_s = 595;
  CHECK(screen.run_ended(end, 1764930264) == job_finished(1764930264, 595) + "\n");
}

TEST_CASE("where a job script writes the block, the console does not") {
  auto run = small_run();
  run.environment = [](const std::string& name) -> std::optional<std::string> {
    return name == "SLURM_JOB_ID" ? std::optional<std::string>("7") : std::nullopt;
  };
  Screen screen({.style = "nemo"});
  CHECK_THAT(screen.run_started(run, 0), !Contains("Job started"));
  CHECK_THAT(screen.run_ended({}, 0), !Contains("Job finished"));
}

TEST_CASE("Hugging Face's style: dictionaries with the mean loss since the last one, and the whole bar at the end") {
  Screen screen({.every = 2, .style = "hf"});
  CHECK_THAT(screen.run_started(small_run(), 0), !Contains("Argument Name"));
  CHECK(screen.step_ended(step(0, 2)) == "{'loss': 2.0, 'grad_norm': 1.25, 'learning_rate': 4.9e-05, 'epoch': 0.33}\n");
  CHECK(screen.step_ended(step(1, 3)).empty());
  CHECK_THAT(screen.step_ended(step(2, 4)), Contains("{'loss': 3.5, "));
  CHECK(screen.step_ended(step(3, 5)).empty());
  const auto end = screen.run_ended({}, 0);
  CHECK_THAT(end,
             Contains("{'loss': 5.0, ") && Contains("100%|██████████| 4/4 [00:08<00:00,  2.00s/it]\n{'train_runtime'"));
}

TEST_CASE("Hugging Face's bar on a terminal") {
  auto run = small_run();
  run.output_is_terminal = true;
  Screen screen({.style = "hf"});
  screen.run_started(run, 0);
  CHECK(screen.step_ended(step(0, 2)) == "\r\033[K 25%|██▌       | 1/4 [00:02<00:06,  2.00s/it]");
}
