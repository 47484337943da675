#include "plugins/monitors/console/lines.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <cstdlib>
#include <ctime>
#include <limits>

#include "plugins/monitors/console/events.h"

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
