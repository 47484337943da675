// train.regather = "auto": a pipeline's stages stay gathered through a step where that fits by prediction, the same on
// all ranks.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "job/settle.h"
#include "predict/settle.h"
#include "support/folder.h"
#include "support/in_stages.h"

namespace settle_regather_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

class Runs {
 public:
  Runs() { host_.add(in_stages()); }
  setup::JobRequest request(const std::string& strategies, std::int64_t gpu_room, int rank = 0) {
    setup::JobRequest request;
    request.file = folder_.write(
        "job.toml",
        cat("[run]\nhost_memory = 1000\n[model]\nplugin = \"gpt\"\nvocab_size = 5000\nhidden_size = 256\nnum_layers = "
            "4\nnum_heads = 4\nseq_length = 256\nattention_dropout = 0.0\n[data]\nplugin = \"synthetic\"\nmax_length = "
            "257\n[train]\nmax_steps = 1\nprecision = \"bf16\"\nmicro_batch = 1\n",
            strategies));
    request.overrides = {"train.accumulation=4"};
    request.world_size = 4;
    request.rank = rank;
    request.device = "cuda";
    request.gpu_room = gpu_room;
    return request;
  }
  job::Job job(const setup::JobRequest& request) {
    Diagnostics faults;
    auto job = job::make_job(request, host_, faults);
    faults.throw_if_any();
    return std::move(*job);
  }
  job::Job job(const std::string& strategies, std::int64_t gpu_room, int rank = 0) {
    return job(request(strategies, gpu_room, rank));
  }
  std::int64_t peak(const std::string& strategies, const std::string& regather) {
    const auto job = predict::predict_with(request(strategies, 0), {"train.regather=" + regather}, host_);
    REQUIRE(job);
    return layout::total_bytes(job->prediction.footprints, "cuda");
  }

 private:
  test::Folder folder_;
  plugin::Host host_;
};

const std::string stages = stages_table("two"), full_shard = "[strategy.fsdp]\n";

shard::ReduceWhen sums_of(const job::Job& job) {
  return job::engine_options(job.config, job.topology, job.samples, *job.model, c10::Device("cuda")).reduce;
}

}  // namespace

TEST_CASE("a stage stays gathered, and its gradients are summed once, if the smallest GPU has room") {
  Runs runs;
  const auto once = runs.peak(stages + full_shard, "step"), each = runs.peak(stages + full_shard, "micro_step");
  REQUIRE(each < once);
  for (const int rank : {0, 1, 2, 3}) {
    const auto roomy = runs.job(stages + full_shard, once + once / 20, rank);
    CHECK(roomy.topology.gathers_once);
    CHECK(sums_of(roomy) == shard::ReduceWhen::step);
    const auto tight = runs.job(stages + full_shard, once + once / 20 - 1, rank);
    CHECK_FALSE(tight.topology.gathers_once);
    CHECK(sums_of(tight) == shard::ReduceWhen::micro_step);
    CHECK_THAT(tight.ranks_summary(), Contains("regather auto: micro_step, since with step the predicted "));
    CHECK_THAT(config::to_toml(tight.tables()), Contains("regather = \"micro_step\""));
  }
  CHECK(runs.job(stages + full_shard, 0).topology.gathers_once);  // an unknown GPU
}

TEST_CASE("a pipeline's evaluations keep what they gather if all positions have room, as all ranks predict") {
  Runs runs;
  const auto evaluating = [&](std::int64_t room, int rank) {
    auto request = runs.request(stages + full_shard, room, rank);
    request.overrides.insert(request.overrides.end(), {"train.regather=micro_step", "data.eval_samples=8"});
    request.activations = true;
    return runs.job(request);
  };
  const auto peak = [](const job::Job& job) { return layout::total_bytes(job.prediction.footprints, "cuda"); };
  const auto held = peak(evaluating(std::int64_t{1} << 40, 0));
  REQUIRE(held > peak(evaluating(0, 0)));
  for (const int rank : {0, 1, 2, 3}) {
    CHECK(evaluating(held + held / 20, rank).prediction.holds);
    CHECK(peak(evaluating(held + held / 20, rank)) == held);
    CHECK_FALSE(evaluating(held + held / 20 - 1, rank).prediction.holds);
  }
}

TEST_CASE("what stays gathered by itself, and what when it is asked for") {
  Runs runs;
  const auto once = [&](const std::string& strategies, const std::string& more) {
    auto request = runs.request(strategies, 0);
    request.overrides.push_back(more);
    return runs.job(request).topology.gathers_once;
  };
  const std::string as_it_is = "train.regather=auto", asked = "train.regather=step";
  CHECK(once(stages + "[strategy.zero]\nstage = 3\n", as_it_is));
  CHECK_FALSE(once(stages + "[strategy.zero]\nstage = 2\n", asked));
  CHECK_FALSE(once(stages + full_shard + "reshard_size = 2\n", as_it_is));
  CHECK_FALSE(once(stages + full_shard, "train.regather=micro_step"));
  CHECK_FALSE(once(stages + full_shard, "train.accumulation=1"));
  CHECK_FALSE(once(full_shard, as_it_is));
  CHECK(once(full_shard, asked));
  CHECK_FALSE(once("", asked));
  const auto said = [&](const std::string& strategies) {
    auto asking = runs.request(strategies, 0);
    asking.overrides.push_back(asked);
    return runs.job(asking).ranks_summary();
  };
  CHECK_THAT(said(""), Contains("note: train.regather has no effect: nothing shards parameters"));
  CHECK_THAT(said(full_shard + "reshard_size = 2\n"),
             Contains("gathered once a step; how backward gathers has no effect"));
  auto request = runs.request(full_shard, 0);
  request.overrides = {asked, "train.reduce=micro_step", "train.accumulation=4"};
  CHECK(sums_of(runs.job(request)) == shard::ReduceWhen::micro_step);
}

}  // namespace settle_regather_test
