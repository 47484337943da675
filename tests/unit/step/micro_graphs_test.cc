// Micro-steps that are recorded and replayed: when, and that nothing is learnt that eager ones would not learn. A
// recorder that runs the work again in place of replaying it stands in for the GPU's; tests/gpu/graphs_test.cc has
// that.
#include "step/micro_graphs.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "step/micro_steps.h"
#include "step/tracing.h"
#include "support/again_recorder.h"
#include "support/folder.h"
#include "support/small_run.h"

namespace micro_graphs_test {

using namespace capstan;
using test::AgainRecorder;

namespace {

struct Learnt {
  std::vector<double> losses;
  std::vector<double> auxiliary;
  std::vector<double> expert_tokens;                         // the first expert's
  std::vector<std::map<std::string, at::Tensor>> gradients;  // by step
};

using Prepare = std::function<void(step::Session&)>;
using Change = std::function<void(step::StepInput&)>;

// Labels at the first `count` positions of a micro-batch, in place of those that it has.
void label(data::HostBatch& batch, std::size_t count) {
  std::fill(batch.labels.begin(), batch.labels.end(), data::ignored_label);
  std::copy_n(batch.tokens.begin(), count, batch.labels.begin());
  batch.target_tokens = static_cast<std::int64_t>(count);
}

Learnt gradients_of(const std::shared_ptr<AgainRecorder>& recorder, const std::vector<std::string>& overrides,
                    const std::string& file = testing::small_config(), const Prepare& prepare = {},
                    const Change& change = {}) {
  at::set_num_threads(1);
  Learnt learnt;
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    const auto job = testing::prepare_small(file, overrides, 1, 0);
    auto session = step::materialise(job, communicator);
    if (prepare) prepare(session);
    step::Feed feed(job);
    const step::LossScale scale({}, session.device);
    step::MicroSteps steps(session, scale, {recorder, 20});
    for (std::int64_t s = 0; s < 5; ++s) {
      auto input = feed.draw(s);
      if (change) change(input);
      const auto sums = steps.run(input, input.counts);
      learnt.losses.push_back(sums.loss.item<double>());
      learnt.auxiliary.push_back(sums.auxiliary.item<double>());
      if (sums.expert_tokens.defined()) learnt.expert_tokens.push_back(sums.expert_tokens[0][0].item<double>());
      auto& gradients = learnt.gradients.emplace_back();
      for (const auto& stored : session.engine->gradient_boxes()) gradients[stored.record->name] = stored.value.clone();
    }
  });
  return learnt;
}

void check_same(const Learnt& got, const Learnt& expected) {
  CHECK(got.losses == expected.losses);
  REQUIRE(got.gradients.size() == expected.gradients.size());
  for (std::size_t s = 0; s < expected.gradients.size(); ++s) {
    REQUIRE(got.gradients[s].size() == expected.gradients[s].size());
    for (const auto& [name, gradient] : expected.gradients[s]) {
      INFO(name << " of step " << s);
      CHECK(at::equal(got.gradients[s].at(name), gradient));
    }
  }
}

// Four micro-steps of this number of rows; all are padded to one length, so that there is one shape.
std::vector<std::string> rows_of_one_shape(int rows) {
  return {"train.accumulation=4", cat("train.global_batch=", 4 * rows), "train.pad_to_multiple=128",
          "model.dropout=0.2"};
}
const auto one_shape = rows_of_one_shape(4);

std::vector<std::string> with(std::vector<std::string> overrides, const std::string& more) {
  overrides.push_back(more);
  return overrides;
}

std::string log_of(const std::function<void()>& work) {
  const auto file = std::filesystem::temp_directory_path() / ("capstan-graphs-" + std::to_string(::getpid()) + ".log");
  log::configure(file.string(), log::Level::error, 0);
  work();
  log::configure("", log::Level::warning, 0);
  auto text = read_file(file);
  std::filesystem::remove(file);
  return text;
}

}  // namespace

TEST_CASE("a shape is replayed from its third micro-step on, and learns the same bits, dropout included") {
  const std::string precision = GENERATE("fp32", "bf16");
  const auto overrides = with(one_shape, "train.precision=" + precision);
  const auto recorder = std::make_shared<AgainRecorder>();
  check_same(gradients_of(recorder, overrides), gradients_of(nullptr, overrides));
  // A step's first micro-step writes gradients, the others add: 5 and 15 of them, 2 of each first run eagerly.
  CHECK(recorder->records == 2);
  CHECK(recorder->replays == 5 + 15 - 2 * 2);
}

TEST_CASE("the first micro-steps show which weights have gradients: replays pass the host by") {
  comm::run_in_process(1, [](comm::Communicator& communicator) {
    const auto job = testing::prepare_small(testing::small_config(), with(one_shape, "train.precision=bf16"), 1, 0);
    auto session = step::materialise(job, communicator);
    step::Feed feed(job);
    const step::LossScale scale({}, session.device);
    step::MicroSteps steps(session, scale, {});
    steps.run(feed.draw(0), {100});
    for (const auto& reached : session.engine->reached()) CHECK(reached.reached);
  });
}

TEST_CASE("the number of positions whose logits are computed is a part of the shape") {
  const auto overrides = with(rows_of_one_shape(12), "train.precision=fp32");
  const Change change = [](step::StepInput& input) {
    // 300 labels take 512 positions in the first micro-step and in the last; others keep 256.
    label(input.micro[0], input.step % 2 == 0 ? 300 : 0);
    label(input.micro[3], 300);
  };
  const auto recorder = std::make_shared<AgainRecorder>();
  check_same(gradients_of(recorder, overrides, testing::small_config(), {}, change),
             gradients_of(nullptr, overrides, testing::small_config(), {}, change));
  // Writing 512 in steps 0, 2 and 4 and 256 in 1 and 3; adding 256 ten times and 512 five times.
  CHECK(recorder->records == 3);
  CHECK(recorder->replays == (3 - 2) + (10 - 2) + (5 - 2));
}

TEST_CASE("each shape has a graph, and shapes that are rare have none") {
  const std::vector<std::string> overrides{"train.accumulation=4", "train.global_batch=4", "train.pad_to_multiple=8",
                                           "data.max_length=200",  "model.seq_length=200", "model.dropout=0.2",
                                           "train.precision=fp32"};
  const auto recorder = std::make_shared<AgainRecorder>();
  check_same(gradients_of(recorder, overrides), gradients_of(nullptr, overrides));
  CHECK(recorder->records >= 3);  // the first micro-step of a step has a graph of its own
  CHECK(recorder->replays > 0);
  CHECK(recorder->replays <= 20 - 2 * recorder->records);
}

TEST_CASE("a recording that fails leaves no trace but one line of the log, and none is tried again") {
  const auto recorder = std::make_shared<AgainRecorder>();
  // Gradients are left where reductions, which were only recorded, did not take them.
  const Prepare prepare = [&](step::Session& session) {
    recorder->on_failure = [&session] {
      for (const auto& weight : session.units[1]->weights())
        weight->value().mutable_grad() = at::ones_like(weight->value());
    };
  };
  const auto overrides = with(one_shape, "train.precision=fp32");
  Learnt got;
  const auto log = log_of([&] { got = gradients_of(recorder, overrides, testing::small_config(), prepare); });
  CHECK_THAT(log, Contains("micro-steps do not run as CUDA graphs: a CUDA graph cannot be recorded: the host reads\n"));
  check_same(got, gradients_of(nullptr, overrides));
  CHECK(recorder->records == 1);
}

TEST_CASE("what cannot be replayed is not recorded, and the log says why") {
  const auto recorder = std::make_shared<AgainRecorder>();
  const auto overrides = with(one_shape, "train.precision=fp32");
  auto file = testing::small_config();
  std::string why;
  Prepare prepare;
  SECTION("units that run again in backward") {
    file = testing::small_config("[strategy.recompute]\nevery = 1\n");
    why = "units are computed again in backward";
  }
  SECTION("regions that do") {
    prepare = [](step::Session& session) {
      session.units[1]->all<nn::Region>().front()->around.fill("test",
                                                               [](const auto& body, const auto& x) { return body(x); });
    };
    why = "units are computed again in backward";
  }
  SECTION("units that a monitor follows") {
    prepare = [](step::Session& session) {
      step::trace_units(*session.runner,
                        std::make_shared<step::Tracers>(std::vector<std::shared_ptr<monitor::Tracer>>{}));
    };
    why = "a strategy or a monitor follows the units";
  }
  SECTION("no room for a second set of activations") {
    recorder->room = {39, 10};  // 2 x 20 are predicted
    why = "but only 39 B are free";
  }
  Learnt got;
  const auto log = log_of([&] { got = gradients_of(recorder, overrides, file, prepare); });
  CHECK_THAT(log, Contains(why));
  CHECK(recorder->records == 0);
  check_same(got, gradients_of(nullptr, overrides, file, prepare));
}

TEST_CASE("packed rows run eagerly: their shapes hardly come again") {
  const auto recorder = std::make_shared<AgainRecorder>();
  auto overrides = with(with(one_shape, "train.precision=fp32"), "data.packing=true");
  overrides.emplace_back("data.train_samples=240");  // no step is filled up with empty rows
  Learnt got;
  const auto log = log_of([&] { got = gradients_of(recorder, overrides); });
  CHECK_THAT(log, Contains("packed rows hardly ever have a shape again"));
  check_same(got, gradients_of(nullptr, overrides));
  CHECK(recorder->records == 0);
}

TEST_CASE("experts and their auxiliary loss: gradients, sums and counts are those of eager micro-steps") {
  const test::Folder folder;
  const auto file = folder.write(
      "experts.toml",
      "[run]\nseed = 3\ndevice = \"cpu\"\n"
      "[model]\nplugin = \"mixtral\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 2\n"
      "num_kv_heads = 1\nff_dim = 24\nnum_experts = 4\nseq_length = 130\nrouter_aux_loss = true\n"
      "[data]\nplugin = \"squad\"\ntrain = \"" CAPSTAN_SOURCE_DIR
      "/configs/data/mini_squad_train.json\"\nmax_length = 97\n"
      "[train]\nmax_steps = 20\nglobal_batch = 12\naccumulation = 3\nprecision = \"fp32\"\npad_to_multiple = 128\n");
  const auto recorder = std::make_shared<AgainRecorder>();
  const auto got = gradients_of(recorder, {}, file), expected = gradients_of(nullptr, {}, file);
  check_same(got, expected);
  CHECK(got.auxiliary == expected.auxiliary);
  CHECK(got.expert_tokens == expected.expert_tokens);
  CHECK(got.auxiliary.back() > 0);
  CHECK(got.expert_tokens.back() > 0);
  CHECK(recorder->replays == 5 + 10 - 2 * 2);
}

namespace {

// What each of two ranks has after each of 5 steps.
std::vector<Learnt> learn_on_two(const std::vector<std::shared_ptr<AgainRecorder>>& recorders,
                                 const std::vector<std::string>& overrides,
                                 const std::string& file = testing::small_config()) {
  at::set_num_threads(1);
  std::vector<Learnt> learnt(2);
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    const auto rank = communicator.world().rank;
    const auto job = testing::prepare_small(file, overrides, 2, rank);
    auto session = step::materialise(job, communicator);
    step::Feed feed(job);
    const step::LossScale scale({}, session.device);
    const step::GraphSetting graphs{recorders[static_cast<std::size_t>(rank)], 20};
    step::MicroSteps steps(session, scale, graphs);
    auto& mine = learnt[static_cast<std::size_t>(rank)];
    for (std::int64_t s = 0; s < 5; ++s) {
      mine.losses.push_back(steps.run(feed.draw(s), {100}).loss.item<double>());
      mine.losses.push_back(session.engine->squared_grad_norms().sum().item<double>());
      auto& gradients = mine.gradients.emplace_back();
      for (const auto& stored : session.engine->gradient_boxes()) gradients[stored.record->name] = stored.value.clone();
      CHECK_FALSE(gradients.empty());
    }
  });
  return learnt;
}

void check_both(const std::vector<Learnt>& got, const std::vector<Learnt>& expected) {
  for (std::size_t rank = 0; rank < 2; ++rank) check_same(got[rank], expected[rank]);
}

std::vector<std::shared_ptr<AgainRecorder>> two_recorders() {
  return {std::make_shared<AgainRecorder>(), std::make_shared<AgainRecorder>()};
}

}  // namespace

TEST_CASE("ranks record micro-steps without their sums of gradients, and learn the same bits") {
  const std::vector<std::string> common{"train.global_batch=48", "train.pad_to_multiple=128", "train.precision=bf16"};
  const auto [more, records, replays] = GENERATE(table<std::vector<std::string>, int, int>({
      {{"train.accumulation=2", "run.deterministic=true"}, 2, 2 * (5 - 2)},
      {{"train.accumulation=3", "run.deterministic=true"}, 3, 3 * (5 - 2)},
      {{"train.accumulation=2"}, 2, 2 * (5 - 2)},  // the tied table's lookups are exchanged as rows
      {{"optimizer.clip=1"}, 1, 5 - 2},
      {{"strategy.fsdp.mode=no_shard", "strategy.fsdp.reduce_dtype=bf16"}, 1, 5 - 2},
      // The first step's first micro-step gathers parameters, which stay, since nothing updates them here.
      {{"train.accumulation=2", "strategy.zero.stage=1"}, 2, (4 - 2) + (5 - 2)},
  }));
  auto overrides = common;
  overrides.insert(overrides.end(), more.begin(), more.end());
  INFO(more.back());
  const auto recorders = two_recorders();
  check_both(learn_on_two(recorders, overrides), learn_on_two({nullptr, nullptr}, overrides));
  for (const auto& recorder : recorders) {
    CHECK(recorder->records == records);
    CHECK(recorder->replays == replays);
  }
}

TEST_CASE("ranks that sum the gradients of adapters record too, and learn the same bits, dropout included") {
  const auto file = testing::small_config(
      "[strategy.lora]\nrank = 2\ndropout = 0.2\ninit = \"random\"\ntargets = [\"all-linear\"]\n");
  const std::vector<std::string> overrides{"train.global_batch=48", "train.pad_to_multiple=128", "train.precision=bf16",
                                           "train.accumulation=3", "model.dropout=0.2"};
  const auto recorders = two_recorders();
  check_both(learn_on_two(recorders, overrides, file), learn_on_two({nullptr, nullptr}, overrides, file));
  for (const auto& recorder : recorders) CHECK(recorder->replays == 3 * (5 - 2));
}

TEST_CASE("a rank may record a micro-step that others run eagerly: sums are no part of a recording") {
  const std::vector<std::string> overrides{"train.global_batch=48", "train.pad_to_multiple=128",
                                           "train.precision=bf16"};
  const auto one = std::make_shared<AgainRecorder>();
  check_both(learn_on_two({one, nullptr}, overrides), learn_on_two({nullptr, nullptr}, overrides));
  CHECK(one->replays == 5 - 2);
}

TEST_CASE("where no micro-step of the first step could be a graph, the log says why, once") {
  std::vector<std::string> overrides{"train.global_batch=48", "train.pad_to_multiple=128", "train.precision=fp32"};
  SECTION("gradients that go to their shards") { overrides.emplace_back("strategy.zero.stage=1"); }
  SECTION("shards") { overrides.emplace_back("strategy.fsdp.mode=full_shard"); }
  const auto recorders = two_recorders();
  const auto log = log_of([&] { learn_on_two(recorders, overrides); });
  CHECK_THAT(log, Contains("micro-steps do not run as CUDA graphs: each gathers parameters, moves gradients"));
  const auto first = log.find("CUDA graphs");
  CHECK(first == log.rfind("CUDA graphs", log.find('\n', first)));
  CHECK(recorders[0]->records == 0);
}

}  // namespace micro_graphs_test
