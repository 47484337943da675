// train.micro_batch = "auto": the largest that the prediction allows, the same on all ranks and in a resumed run.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "job/settle.h"
#include "predict/settle.h"
#include "support/folder.h"

namespace settle_micro_batch_test {

using namespace capstan;

namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

struct Prepared {
  std::optional<job::Job> job;
  std::string faults;
};

Prepared prepare(const test::Folder& folder, const std::string& train, std::int64_t gpu_room, int rank = 0,
                 const std::string& device = "cuda", const std::string& more = "",
                 const std::vector<std::string>& overrides = {}) {
  static plugin::Host host;
  setup::JobRequest request;
  request.file = folder.write(
      "job.toml",
      cat("[run]\nname = \"a\"\ndir = \"runs\"\nhost_memory = 1000\n[model]\nplugin = \"gpt\"\nvocab_size = "
          "5000\nhidden_size = 256\nnum_layers = 4\nnum_heads = 4\nseq_length = 256\nattention_dropout = "
          "0.0\n[data]\nplugin = \"synthetic\"\nmax_length = 257\n[train]\nmax_steps = 1\nprecision = "
          "\"bf16\"\nmicro_batch = \"auto\"\n",
          train, more));
  request.overrides = overrides;
  request.world_size = 2;
  request.rank = rank;
  request.device = device;
  request.gpu_room = gpu_room;
  Diagnostics faults;
  Prepared prepared;
  prepared.job = job::make_job(request, host, faults);
  if (!faults.empty()) prepared.faults = Error(faults.list()).what();
  return prepared;
}

std::int64_t peak_of(const test::Folder& folder, std::int64_t micro_batch) {
  static plugin::Host host;
  setup::JobRequest request;
  request.file = folder / "job.toml";
  request.world_size = 2;
  request.device = "cuda";
  const auto job = predict::predict_with(request, {cat("train.micro_batch=", micro_batch)}, host);
  REQUIRE(job);
  return layout::total_bytes(job->prediction.footprints, "cuda");
}

}  // namespace

TEST_CASE("auto takes the largest micro-batch that divides the global batch and fits with 5 % to spare") {
  const test::Folder folder;
  const auto roomy = prepare(folder, "global_batch = 48\n", 1000000 * mib);
  INFO(roomy.faults);
  REQUIRE(roomy.job);
  CHECK(roomy.job->topology.batch.micro_batch == 24);
  CHECK(roomy.job->topology.batch.accumulation == 1);
  const auto of_6 = peak_of(folder, 6), of_8 = peak_of(folder, 8);
  REQUIRE(of_6 < of_8);
  for (const int rank : {0, 1}) {
    const auto job = prepare(folder, "global_batch = 48\n", of_8 + of_8 / 20, rank).job;
    REQUIRE(job);
    CHECK(job->topology.batch.micro_batch == 8);
    CHECK(job->topology.batch.accumulation == 3);
    CHECK_THAT(job->ranks_summary(), Contains("micro-batch auto: 8, the largest whose predicted "));
  }
  // Just below the margin of the larger one.
  CHECK(prepare(folder, "global_batch = 48\n", of_8 + of_8 / 20 - 1).job->topology.batch.micro_batch == 6);
  const auto tight = prepare(folder, "global_batch = 48\n", mib).job;
  REQUIRE(tight);
  CHECK(tight->topology.batch.micro_batch == 1);
  CHECK_THAT(tight->ranks_summary(), Contains("do not fit well into 1.00 MiB"));
}

TEST_CASE("the run's own configuration has the number, and a run that continues takes it again") {
  const test::Folder folder;
  const auto job = prepare(folder, "global_batch = 48\n", 1000000 * mib).job;
  REQUIRE(job);
  const auto text = config::to_toml(job->tables());
  CHECK_THAT(text, Contains("micro_batch = 24"));
  folder.write("runs/a/config.toml", "[train]\nmicro_batch = 4\n");
  const auto again = prepare(folder, "global_batch = 48\n", 0, 0, "cuda", "[checkpoint]\nresume = \"auto\"\n");
  INFO(again.faults);
  REQUIRE(again.job);
  CHECK(again.job->topology.batch.micro_batch == 4);
  CHECK_THAT(again.job->ranks_summary(), Contains("micro-batch auto: 4, as in the run that it continues"));
}

TEST_CASE(
    "auto is a size that is not given: next to the other two it is the only fault, and one of them can be unset") {
  const test::Folder folder;
  const auto three = prepare(folder, "global_batch = 48\naccumulation = 4\n", 1000000 * mib).faults;
  CHECK_THAT(three, Contains("nothing to choose") && Contains("train.accumulation= unsets what a file says"));
  CHECK_THAT(three, !Contains("micro_batch 1"));
  const auto two =
      prepare(folder, "global_batch = 48\naccumulation = 4\n", 1000000 * mib, 0, "cuda", "", {"train.accumulation="});
  INFO(two.faults);
  REQUIRE(two.job);
  CHECK(two.job->topology.batch.micro_batch == 24);
}

TEST_CASE("what is settled is a number at the line that says auto, and prepare chooses nothing") {
  const test::Folder folder;
  const auto chosen = prepare(folder, "global_batch = 48\n", 1000000 * mib).job;
  REQUIRE(chosen);
  const auto& settled = chosen->config.request;
  REQUIRE(settled.settled.values.size() == 1);
  const auto& size = settled.settled.values.front();
  CHECK(size.path == std::vector<std::string>{"train", "micro_batch"});
  CHECK(size.value == config::Value(std::int64_t{24}));
  CHECK_THAT(size.origin.text(), Contains("job.toml:19"));
  plugin::Host host;
  Diagnostics faults;
  const auto same = job::prepare(settled, host, faults);
  REQUIRE(same);
  CHECK(same->topology.batch.micro_batch == 24);
  CHECK(same->text() == chosen->text());
  CHECK_THAT(same->config.train.where(&setup::TrainOptions::micro_batch), Contains("job.toml:19"));
  auto open = settled;
  open.settled = {};
  const auto unsettled = job::prepare(open, host, faults);
  REQUIRE(unsettled);
  CHECK(unsettled->topology.batch.micro_batch == 1);
}

TEST_CASE("with other options what depends on them is settled again") {
  const test::Folder folder;
  const auto job = prepare(folder, "global_batch = 48\n", 1000000 * mib).job;
  REQUIRE(job);
  plugin::Host host;
  const auto batches = [&](const std::string& override) {
    const auto other = predict::predict_with(job->config.request, {override}, host);
    REQUIRE(other);
    return other->topology.batch;
  };
  CHECK(batches("train.global_batch=40").micro_batch == 20);
  CHECK(batches("train.micro_batch=2").micro_batch == 2);
}

TEST_CASE("auto is refused in words where nothing can be chosen") {
  const test::Folder folder;
  CHECK_THAT(prepare(folder, "global_batch = 8\n", 0, 0, "cpu").faults,
             Contains("job.toml:19") && Contains("on CPUs") && Contains("give a number"));
  CHECK_THAT(prepare(folder, "", mib).faults,
             Contains("without train.global_batch") && Contains("set train.global_batch"));
  CHECK_THAT(prepare(folder, "global_batch = 8\naccumulation = 2\n", mib).faults,
             Contains("nothing to choose") && Contains("leave train.accumulation out"));
  CHECK_THAT(prepare(folder, "global_batch = 8\n", 0).faults,
             Contains("not known into which GPU") && Contains("--gpu h100-80g"));
  CHECK_THAT(prepare(folder, "global_batch = 7\n", mib).faults, Contains("global_batch 7 is not a multiple of"));
}

}  // namespace settle_micro_batch_test
