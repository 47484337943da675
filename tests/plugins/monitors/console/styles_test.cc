#include "plugins/monitors/console/lines.h"
#include "plugins/monitors/console/screen.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <cstdlib>

using namespace capstan::monitor;
using namespace console;
using capstan::config::Origin;

namespace {

Origin from_file() { return {Origin::Layer::file, "a.toml", 3}; }

std::vector<Setting> settings() {
  return {{"data", "plugin", std::string("squad"), from_file()},
          {"data", "max_length", std::int64_t{512}, from_file()},
          {"data", "packing", false, {}},
          {"strategy.fsdp", "mode", std::string("full_shard"), from_file()},
          {"comm", "timeout_s", 600.0, {}}};
}

StepEnded step(std::int64_t number, double loss) {
  StepEnded step;
  step.step = number;
  step.steps = 4;
  step.loss = loss;
  step.lr = 4.9e-05;
  step.grad_norm = 1.25;
  step.epoch_progress = 0.325;
  step.step_time_s = 2;
  step.samples = 8;
  return step;
}

RunStarted small_run() {
  RunStarted run;
  run.name = "a";
  run.steps = 4;
  run.steps_per_epoch = 4;
  run.settings = settings();
  return run;
}

}  // namespace

TEST_CASE("the table of resolved arguments has what is not a default") {
  const auto table = arguments_table(settings());
  CHECK_THAT(table, Contains("┃ Argument Name") && Contains("│ data                   │ squad(max_length=512)"));
  CHECK_THAT(table, Contains("│ strategy               │ fsdp(mode=\"full_shard\")"));
  CHECK_THAT(table, !Contains("packing") && !Contains("comm"));
  std::vector<Setting> many;
  for (int i = 0; i < 12; ++i) many.push_back({"train", capstan::cat("an_option_", i), std::int64_t{i}, from_file()});
  const auto wrapped = arguments_table(many);
  CHECK_THAT(wrapped, Contains("│ train                  │ (an_option_0=0, "));
  CHECK_THAT(wrapped, Contains("│                        │     an_option_"));
  CHECK_THAT(wrapped, Contains("an_option_11=11)"));
}

TEST_CASE("the block of a job") {
  setenv("TZ", "UTC", 1);
  tzset();
  CHECK_THAT(job_started(1764930264), Contains(" Job started\n Start time : 2025-12-05 10:24:24\n"));
  CHECK_THAT(job_finished(1764930264, 595.4),
             Contains(" Job finished\n End time   : 2025-12-05 10:24:24\n") &&
                 Contains("\n Total time : 00:09:55\n==============================="));
}

TEST_CASE("tqdm's bar") {
  CHECK(tqdm_line(93, 93, 102.3) == "100%|██████████| 93/93 [01:42<00:00,  1.10s/it]");
  CHECK(tqdm_line(32, 93, 16) == " 34%|███▍      | 32/93 [00:16<00:30,  2.00it/s]");
  CHECK(tqdm_line(0, 93, 0) == "  0%|          | 0/93 [00:00<00:00, ?it/s]");
  CHECK(tqdm_line(1, 2, 4000).ends_with("1/2 [1:06:40<1:06:40, 4000.00s/it]"));
}

TEST_CASE("memory and utilisation stand on the line, before val_loss") {
  auto ended = step(1, 1.5);
  ended.values = {{"gpu_util_%", 96.6}, {"mem_total_MB", 5622}, {"mem_alloc_MB", 4000}};
  CHECK_THAT(step_line(ended, small_run(), 0.5), Contains(" | gpu_util: 97 % | gpu_mem: 5.49 GiB | val_loss: 0.5"));
  CHECK(utilisation_text({{"mem_rss_MB", 512}}) == " | mem: 512.00 MiB");
  CHECK(utilisation_text({{"train/samples_per_second", 5}}).empty());
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
