#include "plugins/monitors/console/screen.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "plugins/monitors/console/events.h"
#include "plugins/monitors/console/lines.h"

namespace screen_test {

using namespace capstan::monitor;
using namespace console;
using namespace console_test;

namespace {

const std::string erase = "\r\033[K";

// Drawn over what stands there, and cut at the terminal's edge.
std::string bar(const std::string& text) { return erase + "\033[?7l" + text + "\033[?7h"; }

}  // namespace

TEST_CASE("into a file: the first step, every N-th and the last, a line each") {
  Screen screen({.every = 100}, [] { return std::int64_t{1} << 30; });
  CHECK(screen.run_started(workshop_run(), 0) == start_line(workshop_run()) + "\n");
  std::vector<std::int64_t> shown;
  for (std::int64_t s = 0; s < 250; ++s) {
    auto ended = step(s, 1e-4, 1, 1);
    ended.tokens = 50;
    const auto text = screen.step_ended(ended);
    if (text.empty()) continue;
    shown.push_back(s + 1);
    CHECK_THAT(text, Catch::Matchers::StartsWith("step ") &&
                         Catch::Matchers::EndsWith(capstan::cat(
                             " | ETA ", capstan::duration_text(249.0 - static_cast<double>(s)), " | mem 1.0 GiB\n")) &&
                         Contains(" | 50 tokens/s | "));
  }
  CHECK(shown == std::vector<std::int64_t>{1, 100, 200});
  // The last step's line waits for what follows it.
  CHECK(screen.run_ended({}, 0).starts_with(
      "step 250/250 | loss 1 | 50 tokens/s | lr 0.0001 | ETA 0:00 | mem 1.0 GiB\n"));
}

TEST_CASE("a log has a bounded number of lines, however long the run is") {
  for (const std::int64_t steps : {1, 20, 100, 101, 1200, 100000}) {
    auto run = workshop_run();
    run.steps = steps;
    Screen screen({});
    screen.run_started(run, 0);
    std::int64_t lines = 0;
    const auto count = [&](const std::string& text) { lines += std::count(text.begin(), text.end(), '\n'); };
    for (std::int64_t s = 0; s < steps; ++s) {
      auto ended = step(s, 1e-4, 1, 0.01);
      ended.steps = steps;
      count(screen.step_ended(ended));
    }
    count(screen.run_ended({}, 0));
    INFO(steps << " steps, " << lines << " lines");
    CHECK(lines <= 103);
    CHECK(lines >= std::min<std::int64_t>(steps, 50));
  }
}

TEST_CASE("a rate is that of the steps since the line before") {
  Screen screen({.every = 2});
  screen.run_started(workshop_run(), 0);
  std::string text;
  for (std::int64_t s = 0; s < 4; ++s) {
    auto ended = step(s, 1e-4, 1, s < 2 ? 1 : 4);
    ended.tokens = 100;
    text = screen.step_ended(ended);
  }
  CHECK_THAT(text, Contains(" | 25 tokens/s | "));
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

TEST_CASE("NeMo's val_loss is the last evaluation's, once there was one on the evaluation set") {
  Screen screen({.style = "nemo"});
  screen.run_started(workshop_run(), 0);
  const auto ended = [&](std::int64_t s) { return screen.step_ended(step(s, 1e-4, 1, 1)); };
  CHECK(ended(0).find("val_loss") == std::string::npos);
  auto on_training_questions = evaluation(9, 1, 1);
  on_training_questions.split = "train";
  screen.eval_ended(on_training_questions);
  CHECK(ended(1).find("val_loss") == std::string::npos);
  screen.eval_ended(evaluation(0.194, 1, 1));
  CHECK(ended(2).ends_with(" | val_loss: 0.194\n"));
}

TEST_CASE("an evaluation that is due after the last step comes below its line") {
  Screen screen({});
  screen.run_started(workshop_run(), 0);
  CHECK(screen.eval_ended(evaluation(0.5, 1, 0.5)) == eval_line(evaluation(0.5, 1, 0.5)) + "\n");
  CHECK(screen.step_ended(step(249, 1e-4, 1, 1)).empty());
  CHECK(screen.eval_ended(evaluation(0.194, 1, 1)) ==
        "step 250/250 | loss 1 | 8 samples/s | lr 0.0001 | ETA 0:00\n" + eval_line(evaluation(0.194, 1, 1)) + "\n");
  CHECK(screen.run_ended({}, 0) == run_line({}) + "\n");
}

TEST_CASE("on a terminal a bar is drawn over itself, at most once a second, and gives way to lines") {
  auto run = workshop_run();
  run.output_is_terminal = true;
  Screen screen({});
  screen.run_started(run, 0);
  CHECK(screen.step_ended(step(0, 1e-4, 1, 9)) ==
        bar("[----------] step   1/250 | loss 1 | 0.889 samples/s | lr 0.0001 | ETA 37:21"));
  // The first step is no measure of the others.
  CHECK(screen.step_ended(step(1, 1e-4, 1, 2)) ==
        bar("[----------] step   2/250 | loss 1 | 4 samples/s | lr 0.0001 | ETA 8:16"));
  CHECK(screen.step_ended(step(2, 1e-4, 1, 0.5)).empty());
  CHECK(screen.step_ended(step(3, 1e-4, 1, 0.5)) ==
        bar("[----------] step   4/250 | loss 1 | 16 samples/s | lr 0.0001 | ETA 4:06"));
  const auto eval = evaluation(1, 1, 1);
  CHECK(screen.eval_ended(eval) == erase + eval_line(eval) + "\n");
  CHECK(screen.eval_ended(eval) == eval_line(eval) + "\n");
  CHECK(screen.step_ended(step(249, 1e-4, 1, 4)).empty());
  RunEnded end;
  end.weights = "runs/llama-lora/weights";
  CHECK(screen.run_ended(end, 0) == "[##########] step 250/250 | loss 1 | 2 samples/s | lr 0.0001 | ETA 0:00\n" +
                                        run_line(end) + "\nWeights: runs/llama-lora/weights\n");
}

TEST_CASE("the option decides before the terminal does") {
  auto terminal = workshop_run();
  terminal.output_is_terminal = true;
  Screen lines({.every = 1, .bar = "off"});
  lines.run_started(terminal, 0);
  CHECK(lines.step_ended(step(0, 1e-4, 1, 1)).starts_with("step   1/250 | "));
  Screen bar({.every = 1, .bar = "on"});
  bar.run_started(workshop_run(), 0);
  CHECK(bar.step_ended(step(0, 1e-4, 1, 1)).starts_with(erase + "\033[?7l[----------] step   1/250"));
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
  CHECK(screen.step_ended(step(0, 2)) == bar(" 25%|██▌       | 1/4 [00:02<00:06,  2.00s/it]"));
}

}  // namespace screen_test
