// Loss or gradients that are not finite: what is said, on every rank, and how the run continues.
#include "train/nonfinite.h"

#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <cmath>
#include <functional>

#include "support/small_run.h"
#include "train/loop.h"

namespace nonfinite_test {

using namespace capstan;
using Catch::Matchers::EndsWith;

namespace {

// What a run of two in-process ranks left. Looked at when both are done: they are threads, and Catch knows one.
struct Outcome {
  std::filesystem::path folder;
  std::vector<std::string> errors{"", ""};  // by rank
  std::vector<std::string> metrics;         // lines
  std::string log;
  monitor::RunEnded ended;
  std::vector<step::StepInput> inputs{2};  // the step's that was asked for, by rank
};

using Prepare = std::function<void(step::Session&, int rank)>;

Outcome run_loop(std::vector<std::string> overrides, const Prepare& prepare, std::int64_t input_of_step = 0) {
  at::set_num_threads(1);
  const auto file = testing::small_config("[strategy.fsdp]\nmode = \"full_shard\"\n");
  overrides.insert(overrides.begin(), "train.precision=fp32");
  Outcome outcome;
  outcome.folder = train::RunFolder::make(std::filesystem::path(file).parent_path().string(), "nonfinite");
  const auto log_file = outcome.folder / "test.log";
  log::configure(log_file.string(), log::Level::error, 0);
  const step::Stop stop;
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    const int rank = communicator.world().rank;
    const auto job = testing::prepare_small(file, overrides, 2, rank);
    auto session = step::materialise(job, communicator);
    prepare(session, rank);
    train::RunFolder folder(outcome.folder, rank);
    outcome.inputs[static_cast<std::size_t>(rank)] = step::Feed(job).draw(input_of_step);
    train::Loop loop(session, folder, stop);
    try {
      const auto ended = loop.run();
      if (rank == 0) outcome.ended = ended;
    } catch (const Error& error) {
      outcome.errors[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  log::configure("", log::Level::warning, 0);
  outcome.log = read_file(log_file);
  outcome.metrics = split(trim(read_file(outcome.folder / "metrics.jsonl")), '\n');
  return outcome;
}

// Multiplies what comes back to the second block's last matrix product by `factor` on rank 1, in these steps.
Prepare poisoned(double factor, const std::function<bool(int forward)>& when) {
  return [=](step::Session& session, int rank) {
    if (rank != 1) return;
    auto forward = std::make_shared<int>(0);
    session.units[2]->all<nn::Linear>()[3]->after.fill("test", [=](const at::Tensor& y) {
      if (!y.requires_grad() || !when((*forward)++)) return y;
      auto passed = y.view_as(y);
      passed.register_hook([factor](const at::Tensor& gradient) { return gradient * factor; });
      return passed;
    });
  };
}

// The same place on rank 1, where forward computes infinity in these forwards of training, and in those that look
// again.
Prepare overflowing(const std::function<bool(int forward)>& when) {
  return [=](step::Session& session, int rank) {
    if (rank != 1) return;
    auto forward = std::make_shared<std::int64_t>(0);
    auto bad_ids = std::make_shared<at::Tensor>();
    auto* unit = session.units[2];
    unit->all<nn::Linear>()[3]->after.fill("test", [=](const at::Tensor& y) {
      const auto& ids = unit->batch().sample_ids;
      if (y.requires_grad() && when(static_cast<int>((*forward)++))) *bad_ids = ids;
      return bad_ids->defined() && at::equal(*bad_ids, ids) ? y * HUGE_VAL : y;
    });
  };
}

std::string found_in(const std::string& unit) {
  return "in forward the first output with nan, inf or numbers too large to square is that of unit " + unit;
}

const char* const where =
    "in forward order the first gradient with nan or inf is that of wte.weight, unit embedding (25 of 28 have some); "
    "backward came to h.1.mlp.c_proj.weight, unit blocks.1, first";

}  // namespace

TEST_CASE("stop: every rank says the same, with the first parameter and unit") {
  const auto outcome = run_loop({"train.max_steps=5"}, poisoned(HUGE_VAL, [](int step) { return step == 2; }));
  CHECK(outcome.errors[0] == outcome.errors[1]);
  CHECK_THAT(outcome.errors[0], Contains("step 2: the loss is ") && Contains(std::string(", the gradient norm ")));
  CHECK_THAT(outcome.errors[0], Contains(where));
  CHECK_THAT(outcome.errors[0], EndsWith("fix: lower optimizer.lr, or add warm-up"));
  CHECK(outcome.metrics.size() == 2);
}

TEST_CASE("a value that overflows in forward is found there, though nearly all gradients are nan") {
  const std::string accumulation = GENERATE("1", "2");
  const std::string precision = GENERATE("fp32", "bf16");
  const auto outcome =
      run_loop({"train.max_steps=5", "train.accumulation=" + accumulation, "train.precision=" + precision},
               overflowing([](int forward) { return forward == 3; }));
  CHECK(outcome.errors[0] == outcome.errors[1]);
  const bool is_whole = accumulation == "1";
  CHECK_THAT(outcome.errors[0], Contains(is_whole ? "step 3: the loss is " : "step 1: the loss is ") &&
                                    Contains(found_in("blocks.1") + ", in micro-batch " + (is_whole ? "0" : "1") +
                                             " of rank 1; the largest of its weights is h.1.") &&
                                    !Contains("gradient with nan"));
  CHECK_THAT(outcome.errors[0], EndsWith(precision == "fp32" ? "fix: lower optimizer.lr, or add warm-up"
                                                             : "fix: lower optimizer.lr, add warm-up, or use "
                                                               "train.precision = \"fp32\""));
}

TEST_CASE("a weight so large that what follows overflows is named, and neither loss scale nor optimizer are blamed") {
  const auto outcome = run_loop({"train.max_steps=2", "train.loss_scale=8"}, [](step::Session& session, int) {
    for (const auto& stored : session.engine->stored_boxes()) {
      if (stored.record->name == "h.0.mlp.c_proj.weight") stored.value.fill_(3e38);
    }
  });
  CHECK(outcome.errors[0] == outcome.errors[1]);
  CHECK_THAT(outcome.errors[0], Contains("step 0: the loss is ") &&
                                    Contains(found_in("blocks.0") + ", in micro-batch 0 of rank 0; the largest of its "
                                                                    "weights is h.0.mlp.c_proj.weight, up to 3e+38") &&
                                    EndsWith("fix: start from other weights (no step has changed these)"));
}

TEST_CASE("a parameter that itself is not finite is named before gradients are, though only one rank holds it") {
  const auto outcome = run_loop({"train.max_steps=2"}, [](step::Session& session, int rank) {
    if (rank != 1) return;
    for (const auto& stored : session.engine->stored_boxes()) {
      if (stored.record->name == "h.1.ln_2.bias" || stored.record->name == "ln_f.weight")
        stored.value.fill_(std::nan(""));
    }
  });
  CHECK(outcome.errors[0] == outcome.errors[1]);
  CHECK_THAT(outcome.errors[0],
             Contains("step 0: the loss is nan, the gradient norm nan; parameter h.1.ln_2.bias of unit "
                      "blocks.1 itself holds nan or inf, and so do 1 more"));
  CHECK_THAT(outcome.errors[0],
             EndsWith("fix: start from weights that are finite, such as an earlier checkpoint, or lower optimizer.lr"));
}

TEST_CASE("skip: the step is left out, said in the log and in metrics.jsonl, and the run continues") {
  const auto outcome = run_loop({"train.max_steps=5", "train.on_nonfinite=skip"},
                                poisoned(HUGE_VAL, [](int step) { return step == 1 || step == 2; }));
  CHECK(outcome.errors == std::vector<std::string>{"", ""});
  CHECK(outcome.ended.steps == 5);
  CHECK(std::isfinite(outcome.ended.mean_loss));
  REQUIRE(outcome.metrics.size() == 5);
  for (std::size_t step = 0; step < 5; ++step) {
    const auto line = Json::parse(outcome.metrics[step]);
    CHECK(line.contains("skipped") == (step == 1 || step == 2));
    CHECK_FALSE(line.contains("loss_scale"));
  }
  CHECK_THAT(outcome.log, Contains("skipped step 1: the loss is ") && Contains("skipped step 2: "));
  CHECK_THAT(outcome.log, Contains(where));
  // One line a step: rank 0's.
  const auto first = outcome.log.find("skipped step 1");
  CHECK(outcome.log.find("skipped step 1", first + 1) == std::string::npos);
}

TEST_CASE("skip gives up after 20 steps in a row, not after 20 in all") {
  const auto outcome = run_loop({"train.max_steps=45", "train.on_nonfinite=skip"},
                                poisoned(HUGE_VAL, [](int step) { return (step >= 1 && step <= 19) || step >= 21; }));
  CHECK(outcome.errors[0] == outcome.errors[1]);
  CHECK_THAT(
      outcome.errors[0],
      Contains("20 steps in a row were not finite and were skipped; the last, step 40: the loss is ") &&
          Contains("fix: training cannot continue from these weights: lower optimizer.lr, or start from an earlier "
                   "checkpoint"));
}

TEST_CASE("dump: the batch of every rank and the bad gradients go to the run's folder, then the run stops") {
  const auto outcome = run_loop({"train.max_steps=5", "train.on_nonfinite=dump", "train.accumulation=2"},
                                poisoned(HUGE_VAL, [](int forward) { return forward == 7; }), 3);
  CHECK(outcome.errors[0] == outcome.errors[1]);
  const auto file = outcome.folder / "dump-step-3.json";
  CHECK_THAT(outcome.errors[0], Contains("; batch and norms are in " + file.string()));
  const auto dump = Json::parse(read_file(file));
  CHECK(dump.at("step") == 3);
  CHECK_FALSE(dump.contains("loss_scale"));
  CHECK_FALSE(dump.contains("output"));
  CHECK(dump.at("parameters").empty());
  CHECK(dump.at("gradients").size() == 25);
  CHECK(dump.at("gradients")[0].at("parameter") == "wte.weight");
  CHECK(dump.at("gradients")[0].at("unit") == "embedding");
  const auto norm = dump.at("gradients")[24].at("norm").get<std::string>();
  CHECK((norm == "inf" || norm == "nan"));
  REQUIRE(dump.at("ranks").size() == 2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto& input = outcome.inputs[rank];
    const auto& shown = dump.at("ranks")[rank];
    CHECK(shown.at("rank") == rank);
    REQUIRE(shown.at("micro_batches").size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& batch = input.micro[i];
      CHECK(shown.at("micro_batches")[i].at("sample_ids").get<std::vector<std::int64_t>>() == batch.sample_ids);
      std::vector<std::int64_t> tokens;
      for (const auto& row : shown.at("micro_batches")[i].at("tokens")) {
        CHECK(static_cast<std::int64_t>(row.size()) == batch.cols);
        for (const auto& token : row) tokens.push_back(token.get<std::int64_t>());
      }
      CHECK(tokens == batch.tokens);
    }
  }
}

TEST_CASE("dump: the unit where forward overflowed is in it") {
  const auto outcome =
      run_loop({"train.max_steps=2", "train.on_nonfinite=dump"}, overflowing([](int forward) { return forward == 1; }));
  const auto dump = Json::parse(read_file(outcome.folder / "dump-step-1.json"));
  CHECK(dump.at("output") == Json{{"unit", "blocks.1"}, {"rank", 1}, {"micro_batch", 0}});
}

TEST_CASE("dynamic loss scale: an overflow is no error until the scale is at its minimum") {
  const std::vector<std::string> overrides{"train.max_steps=6", "train.loss_scale=dynamic", "train.loss_scale_init=8",
                                           "train.loss_scale_min=2"};
  SECTION("above it: the step is skipped and reported") {
    const auto outcome = run_loop(overrides, poisoned(HUGE_VAL, [](int step) { return step == 1 || step == 3; }));
    CHECK(outcome.errors == std::vector<std::string>{"", ""});
    REQUIRE(outcome.metrics.size() == 6);
    std::vector<double> scales;
    for (std::size_t step = 0; step < 6; ++step) {
      const auto line = Json::parse(outcome.metrics[step]);
      scales.push_back(line.at("loss_scale").get<double>());
      CHECK(line.contains("skipped") == (step == 1 || step == 3));
    }
    CHECK(scales == std::vector<double>{8, 8, 4, 4, 2, 2});
    CHECK_THAT(outcome.log, Contains("step 1 skipped: gradients overflowed at loss scale 8; the scale goes down") &&
                                Contains("step 3 skipped: gradients overflowed at loss scale 4; the scale goes down"));
  }
  SECTION("at it: the run stops") {
    const auto outcome = run_loop(overrides, poisoned(HUGE_VAL, [](int step) { return step >= 1; }));
    CHECK(outcome.errors[0] == outcome.errors[1]);
    CHECK_THAT(outcome.errors[0], Contains("step 3: the loss is ") && Contains(where) &&
                                      EndsWith("fix: use a smaller train.loss_scale or loss_scale_min, lower "
                                               "optimizer.lr, or add warm-up"));
  }
  SECTION("a loss that is not finite is one at once: no scale helps against it") {
    const auto outcome = run_loop(overrides, [](step::Session& session, int) {
      session.units[1]->all<nn::Linear>()[3]->after.fill("test", [](const at::Tensor& y) { return y * HUGE_VAL; });
    });
    CHECK_THAT(outcome.errors[0], Contains("step 0: the loss is nan") && Contains(found_in("blocks.0")) &&
                                      EndsWith("fix: start from other weights (no step has changed these)"));
  }
}

}  // namespace nonfinite_test
