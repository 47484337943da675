#include "plugins/commands/sweep/planned_runs.h"

#include <capstan_catch.h>

#include "support/errors.h"
#include "support/run_folders.h"

namespace planned_runs_test {

using namespace sweep;
using namespace runs;
using namespace test;

TEST_CASE("counts are sorted and each is there once; other texts are refused") {
  CHECK(counts_of("4,1,2,2", "--gpus") == std::vector<int>{1, 2, 4});
  CHECK_THAT(test::error_of([] { counts_of("1,x", "--gpus"); }), Contains("--gpus 1,x: 'x' is no number from 1 on"));
  CHECK_FALSE(test::error_of([] { counts_of("0", "--nodes"); }).empty());
  CHECK_THAT(test::error_of([] { counts_of("", "--gpus"); }), Contains("--gpus is empty") && Contains("--gpus 1,2,4"));
}

TEST_CASE("several values are an axis, a list or a text with a comma is one value") {
  REQUIRE(axis_of("optimizer.lr=1e-4,5e-5"));
  CHECK(axis_of("optimizer.lr=1e-4,5e-5")->values == std::vector<std::string>{"1e-4", "5e-5"});
  CHECK_FALSE(axis_of("optimizer.lr=1e-4"));
  CHECK_FALSE(axis_of("optimizer.betas=[0.9, 0.99]"));
  CHECK_FALSE(axis_of("run.name=\"a,b\""));
}

TEST_CASE("layers grow with the ranks while the micro-batch shrinks") {
  const test::Folder folder;
  const auto base =
      read_run(make_run(folder, "base", {2, 1, 10, "[model]\nnum_layers = 3\n[data]\ntrain_samples = 500\n"}));
  Sweep sweep{"weak", {2, 4, 8}, {1}, {}, {"a.b=c"}, Weak::layers};
  const auto runs = planned_runs(sweep, base);
  REQUIRE(runs.size() == 3);
  CHECK(runs[0].name == "weak-2");
  CHECK(runs[2].overrides == std::vector<std::string>{"a.b=c", "model.num_layers=12", "train.micro_batch=1"});
  sweep.ranks = {2, 16};
  CHECK_THAT(test::error_of([&] { planned_runs(sweep, base); }),
             Contains("train.micro_batch = 4 cannot shrink evenly"));
  sweep.weak = Weak::samples;
  sweep.nodes = {1, 2};
  sweep.axes = {{"optimizer.lr", {"1e-4", "5e-5"}}};
  const auto more = planned_runs(sweep, base);
  REQUIRE(more.size() == 8);
  CHECK(more[7].name == "weak-2x16-lr=5e-5");
  sweep.axes = {{"data.turn", {"{content}\n", "a/b {content}"}}};
  const auto turns = planned_runs(sweep, base);
  CHECK(turns[0].name == "weak-2-turn={content}_");
  CHECK(turns[0].overrides.back() == "data.turn={content}\n");
  CHECK(turns[1].name == "weak-2-turn=a_b_{content}");
  CHECK(more[7].overrides == std::vector<std::string>{"a.b=c", "data.train_samples=8000", "optimizer.lr=5e-5"});
}

TEST_CASE("a run is done when all of its steps are, with the same configuration, wherever it is called") {
  const test::Folder folder;
  const SweepRun planned{"x", 1, 2, {}};
  const std::string epochs = "epochs = 2\n[run]\nname = \"";
  const auto done = read_run(make_run(folder, "a", {2, 1, 10, epochs + "a\"\n", R"("steps":4,)"}));
  const auto wanted = read_run(make_run(folder, "b", {2, 1, 10, epochs + "b\"\n"}));
  CHECK(is_done(done, wanted, planned));
  CHECK_FALSE(is_done(done, wanted, {"x", 1, 4, {}}));
  const auto stopped = read_run(make_run(folder, "c", {2, 1, 10, epochs + "c\"\n", R"("steps":3,)"}));
  CHECK_FALSE(is_done(stopped, wanted, planned));
  const auto other = read_run(make_run(folder, "d", {2, 1, 10, epochs + "d\"\nseed = 2\n", R"("steps":4,)"}));
  CHECK_FALSE(is_done(other, wanted, planned));
  const auto limited =
      read_run(make_run(folder, "e", {2, 1, 10, "max_steps = 3\n" + epochs + "e\"\n", R"("steps":3,)"}));
  CHECK(is_done(limited, limited, planned));
}

}  // namespace planned_runs_test
