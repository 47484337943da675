// What goes forward through stages outside a step's program: answers, which are those of one rank, and the passes of an
// objective that have no gradient.
#include <ATen/Parallel.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <set>

#include "generation/generation.h"
#include "step/evaluate.h"
#include "support/compositions.h"
#include "support/folder.h"
#include "support/in_stages.h"
#include "support/job.h"

namespace stages_forwards_test {

using namespace capstan;

namespace {

const std::string adapters =
    "[strategy.lora]\nrank = 3\nalpha = 5\ninit = \"random\"\ndropout = 0.1\ntargets = [\"linear_qkv\", "
    "\"linear_proj\"]\n";
const std::string full_shard = "[strategy.fsdp]\n";
const std::string two_tensor_ranks = "[strategy.tensor_parallel]\nsize = 2\n";

struct Layout {
  int world;
  std::string form;  ///< of the stages; empty: none
  std::string strategies;
};

std::string tables(const testing::Family& family, const Layout& layout) {
  constexpr int positions = 80;
  const auto stages = layout.form.empty() ? "" : testing::stages_table(layout.form);
  return testing::family_config(family, positions) + layout.strategies + stages;
}

// The answers to seven questions, two at a time, as each rank is told of them.
std::vector<execution::Evaluation> answers(const testing::Family& family, const Layout& layout) {
  at::set_num_threads(1);
  const test::Folder folder;
  const auto file = folder.write("a.toml", "[run]\nseed = 3\ndevice = \"cpu\"\n" + tables(family, layout) +
                                               "[data]\nplugin = \"squad\"\ntrain = \"" CAPSTAN_SOURCE_DIR
                                               "/configs/data/mini_squad_train.json\"\neval = \"" CAPSTAN_SOURCE_DIR
                                               "/configs/data/mini_squad_eval.json\"\n[train]\nmax_steps = 1\n"
                                               "global_batch = 24\nprecision = \"fp64\"\neval_batch = 2\n"
                                               "temperature = 1.5\nmax_new_tokens = 5\n");
  plugin::Host host;
  host.add(testing::in_stages());
  std::vector<execution::Evaluation> all(static_cast<std::size_t>(layout.world));
  comm::run_in_process(layout.world, [&](comm::Communicator& communicator) {
    setup::JobRequest request;
    request.file = file;
    request.world_size = layout.world;
    request.rank = communicator.world().rank;
    const auto job = testing::job_of(request, host);
    auto session = step::materialise(job, communicator);
    const step::Feed feed(job);
    step::Evaluator evaluator(session, feed);
    auto& mine = all[static_cast<std::size_t>(request.rank)];
    mine = generation::library().answers(session, *job.samples.eval, 7, nullptr);
    mine.loss = evaluator.loss(*job.samples.eval).loss;  // forwards of other shapes follow
  });
  return all;
}

std::vector<std::string> texts(const execution::Evaluation& evaluation) {
  std::vector<std::string> all;
  for (const auto& answer : evaluation.answers) all.push_back(answer.text);
  return all;
}

}  // namespace

TEST_CASE("a model in stages gives the answers of one rank, on every rank", "[matrix][inference]") {
  for (const auto& family : {testing::dense(), testing::mixture()}) {
    const auto alone = answers(family, {1, "", ""}).front();
    const auto expected = texts(alone);
    REQUIRE(expected.size() == 7);
    REQUIRE(std::set<std::string>(expected.begin(), expected.end()).size() > 4);  // answers tell questions apart
    for (const auto& layout : std::vector<Layout>{{2, "two", ""},
                                                  {3, "three", ""},
                                                  {4, "two", full_shard},
                                                  {4, "looped", full_shard},
                                                  {2, "v", ""},
                                                  {4, "two", two_tensor_ranks}}) {
      INFO(family.plugin << ", " << layout.form << " " << layout.strategies);
      for (const auto& told : answers(family, layout)) {
        CHECK(texts(told) == expected);
        CHECK(told.scores == alone.scores);
        CHECK(told.samples == alone.samples);
        CHECK(told.loss == Approx(alone.loss).epsilon(1e-12).margin(0));
      }
    }
  }
}

TEST_CASE("stages with an objective of several forwards, or of given numbers, learn as one rank does", "[train]") {
  const std::string pairs = "[data]\nsequences = 2\n";
  const std::string base = adapters + pairs + "[objective]\nplugin = \"dpo\"\nbeta = 0.5\nlabel_smoothing = 0.1\n";
  const std::string given = pairs +
                            "fields = [\"reference_log_probability float32 sequence\"]\n[objective]\n"
                            "plugin = \"dpo\"\nloss = \"ipo\"\nreference = \"data\"\n";
  const auto learnt = [](const std::string& objective, const Layout& layout, bool packs) {
    return testing::train({.world = layout.world,
                           .config = tables(testing::mixture(), layout) + objective,
                           .overrides = {"train.accumulation=4", packs ? "data.packing=true" : "data.packing=false"},
                           .steps = 3,
                           .types = {testing::in_stages()}});
  };
  for (const auto& objective : {base, given}) {
    const auto alone = learnt(objective, {1, "", ""}, false);
    for (const auto& layout : std::vector<Layout>{{2, "two", ""}, {3, "three", ""}, {4, "looped", full_shard}}) {
      INFO(objective << layout.form);
      CHECK(testing::differences(learnt(objective, layout, false), alone, 1e-10) == "");
    }
    INFO(objective << "packed");
    CHECK(testing::differences(learnt(objective, {4, "v", full_shard}, true), alone, 1e-10) == "");
  }
}

}  // namespace stages_forwards_test
