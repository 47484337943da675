// Evaluations that keep what they gather: the same bits, with each bucket gathered once, however many forwards there
// are and whichever ranks have prompts.
#include <ATen/Parallel.h>
#include <capstan/monitor/tracer.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <map>

#include "generation/generation.h"
#include "step/evaluate.h"
#include "support/small_run.h"

namespace holds_test {

using namespace capstan;
using testing::prepare_small;
using testing::small_config;

namespace {

const std::string eval_file = "data.eval=\"" CAPSTAN_SOURCE_DIR "/configs/data/mini_squad_eval.json\"";

// How often this rank gathers which bucket.
class Gathers final : public monitor::Tracer {
 public:
  void begin(monitor::Span kind, std::string_view name) noexcept override {
    if (kind == monitor::Span::collective && name.starts_with("all-gather 'all-gather fsdp "))
      ++counts_[std::string(name)];
  }
  void end(monitor::Span /*kind*/, std::string_view /*name*/) noexcept override {}
  std::map<std::string, int> taken() { return std::exchange(counts_, {}); }

 private:
  std::map<std::string, int> counts_;
};

using Counts = std::map<std::string, int>;

struct Asked {
  std::vector<std::string> answers;
  std::vector<double> losses;  // before the answers, and after them
  Counts buckets;              // that are sharded, by the name under which they are gathered
  Counts of_answers, of_loss, of_both;
};

Counts buckets_of(const job::Job& job) {
  const auto cpu = c10::Device(c10::DeviceType::CPU);
  const auto options = job::engine_options(job.config, job.topology, job.samples, *job.model, cpu);
  Counts counts;
  for (const auto& bucket : shard::make_plan(job.model->own_units(), options).buckets)
    if (bucket.shards_param) ++counts["all-gather 'all-gather fsdp " + bucket.name + "'"];
  return counts;
}

// Four questions, so that some ranks have more than others or none, and the loss of all samples.
std::vector<Asked> ask(int world, const std::string& strategies, bool holds) {
  at::set_num_threads(1);
  const auto file = small_config(strategies);
  const std::vector<std::string> overrides{
      eval_file,          "data.eval_samples=20", "model.hidden_size=64", "model.num_heads=4",
      "model.ff_dim=128", "train.precision=fp32", "train.eval_batch=1",   "train.max_new_tokens=5"};
  std::vector<Asked> all(static_cast<std::size_t>(world));
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    const auto rank = communicator.world().rank;
    auto job = prepare_small(file, overrides, world, rank);
    job.prediction.holds = holds && rank == 0;  // the first rank's prediction is all ranks'
    auto session = step::materialise(job, communicator);
    const step::Feed feed(job);
    step::Evaluator evaluator(session, feed);
    const auto gathers = std::make_shared<Gathers>();
    communicator.trace(gathers);
    auto& mine = all[static_cast<std::size_t>(rank)];
    mine.buckets = buckets_of(prepare_small(file, overrides, world, rank));
    const auto lose = [&] { mine.losses.push_back(evaluator.loss(*job.samples.eval).loss); };
    const auto answer = [&] {
      for (const auto& one : generation::library().answers(session, *job.samples.eval, 4, nullptr).answers)
        mine.answers.push_back(one.text);
    };
    lose();
    mine.of_loss = gathers->taken();
    answer();
    mine.of_answers = gathers->taken();
    {
      const auto held = session.engine->hold();
      answer();
      lose();
    }
    mine.of_both = gathers->taken();
    communicator.trace(nullptr);
  });
  return all;
}

const std::string full_shard = "[strategy.fsdp]\n";

}  // namespace

TEST_CASE("an evaluation gathers each bucket once if it holds them, and gives the same bits") {
  const auto [world, strategies] =
      GENERATE(table<int, std::string>({{3, full_shard},
                                        {2, full_shard + "cpu_offload = true\n"},
                                        {4, full_shard + "mode = \"hybrid_shard\"\nshard_size = 2\n"},
                                        {4, full_shard + "reshard_size = 2\n"},
                                        {2, full_shard + "mode = \"shard_grad_op\"\n"},
                                        {4, full_shard + "[strategy.tensor_parallel]\nsize = 2\n"},
                                        {4, full_shard + "[strategy.context_parallel]\nsize = 2\n"},
                                        {4, full_shard + "[strategy.pipeline_parallel]\nsize = 2\n"},
                                        {2, full_shard + "[strategy.lora]\nrank = 4\n[strategy.nf4]\n"}}));
  INFO(world << " ranks\n" << strategies);
  const auto each = ask(world, strategies, false), once = ask(world, strategies, true);
  for (std::size_t rank = 0; rank < each.size(); ++rank) {
    INFO("rank " << rank);
    CHECK(once[rank].answers == each[rank].answers);
    CHECK(once[rank].answers.size() == 8);
    CHECK(once[rank].losses == each[rank].losses);
    CHECK(once[rank].losses[0] == once[rank].losses[1]);
    REQUIRE(!once[rank].buckets.empty());
    CHECK(once[rank].of_loss == once[rank].buckets);
    CHECK(once[rank].of_answers == once[rank].buckets);
    CHECK(once[rank].of_both == once[rank].buckets);
    // An answer's first token is of the prompts' forward, and four more follow.
    for (const auto& [bucket, count] : each[rank].of_answers) CHECK(count >= 5 * once[rank].buckets.at(bucket));
  }
}

TEST_CASE("where nothing is sharded, nothing changes") {
  const auto each = ask(2, "[strategy.fsdp]\nmode = \"no_shard\"\n", false);
  const auto once = ask(2, "[strategy.fsdp]\nmode = \"no_shard\"\n", true);
  CHECK(once[1].answers == each[1].answers);
  CHECK(once[1].losses == each[1].losses);
  CHECK(once[1].buckets.empty());
  CHECK(once[1].of_both.empty());
}

}  // namespace holds_test
