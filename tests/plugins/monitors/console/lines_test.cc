#include "plugins/monitors/console/lines.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <cstdlib>
#include <ctime>
#include <limits>
#include <utility>
#include <vector>

#include "plugins/monitors/console/events.h"

namespace lines_test {

using namespace capstan::monitor;
using namespace console;
using namespace console_test;

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

TEST_CASE("the start's phases are told in words, with their shares") {
  CHECK(start_table({{"engine", 1.5}, {"token_caches", 0}, {"another", 0.5}}, 2) ==
        "from the command to the first step  seconds  share\n"
        "opening the program and the engine  1.50     38 %\n"
        "token caches                        0.00     0 %\n"
        "another                             0.50     12 %\n"
        "first samples and step              2.00     50 %\n"
        "all                                 4.00");
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
  CHECK(start_line(run) == "Run llama-lora: 2 ranks, device cuda, backend nccl; 250 steps in all, 10,949 an epoch");
  run.hosts = {"gpu1", "gpu2"};
  run.first_step = 40;
  CHECK(start_line(run) ==
        "Run llama-lora: 2 ranks on 2 hosts, device cuda, backend nccl; 250 steps in all, 10,949 an epoch, 40 done "
        "before");
  run.world_size = 1;
  run.hosts = {"gpu1"};
  CHECK(start_line(run).starts_with("Run llama-lora: 1 rank, device cuda; 250 steps"));
}

TEST_CASE("a step's line says how far, how good, how fast, how long still and in how much memory") {
  constexpr std::int64_t mebibyte = 1 << 20;
  const Progress progress{2, 24680, 16, 65, 1229 * mebibyte};
  CHECK(progress_line(step(19, 1.2e-5, 1.31512, 9), progress) ==
        "step  20/250 | loss 1.315 | 12.3k tokens/s | lr 1.2e-05 | ETA 1:05 | mem 1.2 GiB");
  CHECK(bar_line(step(124, 1e-4, 1.31512, 9), progress) ==
        "[#####-----] step 125/250 | loss 1.315 | 12.3k tokens/s | lr 0.0001 | ETA 1:05 | mem 1.2 GiB");
  CHECK(bar_line(step(249, 1e-4, 1, 9), progress).starts_with("[##########] step 250/250 |"));
  // Without tokens, without memory, without an update, and in no time.
  auto skipped = step(0, 0, 1, 0);
  skipped.skipped = true;
  CHECK(progress_line(skipped, {.samples = 8}) == "step   1/250 | skipped | 0 samples/s | lr 0 | ETA 0:00");
  CHECK_THAT(progress_line(step(0, 0, 1, 0), {.seconds = 1, .samples = 8, .memory = 980 * mebibyte}),
             Contains(" | 8 samples/s | ") && Contains(" | mem 980 MiB"));
}

TEST_CASE("the widest line fits into 100 columns, and numbers that are none into less") {
  auto wide = step(1'199'998, 1.23456e-5, 1.2345678e-5, 9);
  wide.steps = 1'200'000;
  const Progress most{1, 999'400'000, 8, 999.0 * 3600, std::int64_t{999} << 30};
  CHECK(progress_line(wide, most).size() <= 100);
  CHECK(progress_line(wide, most) ==
        "step 1199999/1200000 | loss 1.235e-05 | 999M tokens/s | lr 1.2e-05 | ETA 999:00:00 | mem 999.0 GiB");
  wide.loss = std::numeric_limits<double>::quiet_NaN();
  CHECK_THAT(progress_line(wide, most), Contains(" | loss nan | "));
  for (const auto& [tokens, words] : std::vector<std::pair<std::int64_t, std::string>>{
           {7, "7 "}, {999, "999 "}, {1000, "1k "}, {12'345, "12.3k "}, {999'499, "999k "}, {999'500, "1M "}}) {
    CHECK_THAT(progress_line(wide, {.seconds = 1, .tokens = tokens}), Contains(" | " + words + "tokens/s"));
  }
}

TEST_CASE("a checkpoint's line has a rate where it measures the disk") {
  CheckpointSaved saved{40, "runs/a/checkpoints/step-00000040", std::int64_t{3} << 29, 0.03, 1.2, 1.34e9};
  CHECK(checkpoint_line(saved) ==
        "Checkpoint after step 40: 1.50 GiB, training waited 0.03 s, written in 1.2 s (1.34 GB/s): "
        "runs/a/checkpoints/step-00000040");
  saved.bytes = 344'200;
  CHECK(checkpoint_line(saved) ==
        "Checkpoint after step 40: 336.13 KiB, training waited 0.03 s, written in 1.2 s: "
        "runs/a/checkpoints/step-00000040");
}

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

TEST_CASE("a mixture's sources have their losses and shares on the line") {
  CHECK(sources_text({{"share_a", 0.31}, {"share_b", 0.69}, {"loss_a", 1.2345}}) == " | a 1.234 (31 %) | b (69 %)");
  CHECK(sources_text({{"loss_a", 1}}).empty());
}

}  // namespace lines_test
