// `check` and `run` say the same: what is accepted trains, and what is refused is refused by every rank in the same
// words.
#include <ATen/Parallel.h>
#include <capstan/base/text.h>
#include <capstan/comm/communicator.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <algorithm>
#include <cmath>
#include <random>

#include <capstan/plugin/host.h>
#include "job/settle.h"
#include "support/folder.h"
#include "testing/tiny.h"
#include "testing/train_rank.h"

namespace check_and_run_test {

using namespace capstan;

namespace {

// What a configuration may have of one kind.
struct Choice {
  std::string tables;
  int ranks = 1;  // that it needs
  std::vector<std::string> overrides = {};
};
using Choices = std::vector<Choice>;

std::string of_size(const std::string& table, int size, const std::string& more = {}) {
  return cat("[strategy.", table, "]\nsize = ", size, "\n", more);
}

std::string model(const std::string& plugin, const std::string& sizes) {
  return cat("[model]\nplugin = \"", plugin, "\"\nvocab_size = 261\nnum_layers = 2\nseq_length = 24\n", sizes);
}

// Sizes that fit 8 and 4 bits, whole or in pieces, and sizes that do not.
const Choices models{
    {model("gpt", "hidden_size = 16\nnum_heads = 4\nff_dim = 22\ndropout = 0.1\n")},
    {model("gpt", "hidden_size = 64\nnum_heads = 4\nff_dim = 128\n")},
    {model("bloom", "hidden_size = 12\nnum_heads = 3\n")},
    {model("llama", "hidden_size = 32\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 48\ntie_word_embeddings = true\n")},
    {model("llama", "hidden_size = 128\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 160\n")},
    {model("llama", "hidden_size = 16\nnum_heads = 8\nnum_kv_heads = 2\nff_dim = 22\nattention_bias = true\n")},
    {model("llama", "model_type = \"mistral\"\nsliding_window = 5\nhidden_size = 64\nnum_heads = 4\nff_dim = 64\n")},
    {model("qwen3", "hidden_size = 32\nnum_heads = 4\nnum_kv_heads = 2\nhead_dim = 6\nff_dim = 48\n")},
    {model("olmo2", "hidden_size = 64\nnum_heads = 4\nff_dim = 96\n")},
    {model("mixtral", "hidden_size = 32\nnum_heads = 4\nnum_kv_heads = 1\nff_dim = 48\nnum_experts = 4\n")},
    {model("mixtral",
           "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\nnum_experts = 4\n"
           "router_aux_loss = true\nrouter_aux_loss_coef = 0.5\n")},
};
const Choices tensor{{},
                     {of_size("tensor_parallel", 2), 2},
                     {of_size("tensor_parallel", 2, "sequence_parallel = true\n"), 2},
                     {of_size("tensor_parallel", 4, "vocab_parallel = false\n"), 4},
                     {of_size("tensor_parallel", 4, "sequence_parallel = true\n"), 4},
                     {of_size("tensor_parallel", 3), 3}};
const Choices context{{},
                      {of_size("context_parallel", 2), 2},
                      {of_size("context_parallel", 4, "method = \"ulysses\"\n"), 4},
                      {of_size("context_parallel", 3, "method = \"gather\"\n"), 3},
                      {of_size("context_parallel", 2, "method = \"ring\"\n"), 2}};
const Choices experts{{}, {of_size("expert_parallel", 2), 2}, {of_size("expert_parallel", 4), 4}};
const Choices stages{{},
                     {of_size("pipeline_parallel", 2), 2},
                     {of_size("pipeline_parallel", 2, "schedule = \"zero_bubble\"\n"), 2},
                     {of_size("pipeline_parallel", 2, "schedule = \"interleaved\"\n"), 2}};
const Choices shards{{},
                     {"[strategy.fsdp]\n"},
                     {"[strategy.fsdp]\nmode = \"shard_grad_op\"\nwrap = 2\n"},
                     {"[strategy.fsdp]\nmode = \"no_shard\"\n"},
                     {"[strategy.fsdp]\nmode = \"hybrid_shard\"\nshard_size = 2\n"},
                     {"[strategy.fsdp]\nreshard_size = 2\n"},
                     {"[strategy.fsdp]\ncpu_offload = true\n"},
                     {"[strategy.zero]\nstage = 1\n"},
                     {"[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\n"},
                     {"[strategy.zero]\nstage = 3\nbucket_size = 2500\n"}};
const Choices again{{},
                    {"[strategy.recompute]\n"},
                    {"[strategy.recompute]\nregions = [\"attention\", \"mlp\"]\n"},
                    {"[strategy.recompute]\nkeep_attention = true\n"},
                    {"[strategy.recompute]\ntile_tokens = 5\n"}};
const Choices adapters{
    {},
    {"[strategy.lora]\nrank = 3\n"},
    {"[strategy.lora]\ntargets = [\"all-linear\"]\ndropout = 0.1\n"},
    {"[strategy.lora]\ntargets = [\"linear_fc1\", \"linear_fc2\"]\nmodules_to_save = [\"lm_head\"]\n"},
    {"[strategy.lora]\ntargets = [\"experts\"]\n"}};
const Choices few_bits{{},
                       {"[strategy.fp8]\n"},
                       {"[strategy.fp8]\nrecipe = \"tensorwise\"\nbackward = \"e5m2\"\n"},
                       {"[strategy.fp8]\nrecipe = \"tensorwise\"\ngather = \"fp8\"\n"},
                       {"[strategy.fp8]\nrecipe = \"blockwise\"\n"},
                       {"[strategy.fp8]\nstore = \"fp8\"\n"},
                       {"[strategy.fp8]\nrecipe = \"blockwise\"\nstore = \"fp8_both\"\n"},
                       {"[strategy.nf4]\n"}};
const Choices rules{{},
                    {"[optimizer]\nplugin = \"lion\"\n"},
                    {"[optimizer]\nplugin = \"muon\"\n"},
                    {"[optimizer]\nplugin = \"adam8bit\"\n"}};
const Choices objectives{{},
                         {"[objective]\nplugin = \"dpo\"\n", 1, {"data.sequences=2"}},
                         {"[objective]\nplugin = \"dpo\"\nreference = \"start\"\n", 1, {"data.sequences=2"}},
                         {"[objective]\nplugin = \"dpo\"\nloss = \"orpo\"\n", 1, {"data.sequences=2"}},
                         {"[objective]\nplugin = \"dpo\"\nloss = \"simpo\"\n", 1, {"data.sequences=2"}},
                         {"[objective]\nplugin = \"distill\"\nteacher = \"start\"\n"}};
const Choices data{{},
                   {"", 1, {"data.packing=true"}},
                   {"", 1, {"data.length=3", "train.pad_to_multiple=1"}},
                   {"", 1, {"data.samples=5", "train.pad_to_multiple=1"}},
                   {"", 1, {"data.packing=true", "data.samples=9", "train.pad_to_multiple=1"}}};
const Choices precisions{{"", 1, {"train.precision=fp32"}},
                         {"", 1, {"train.precision=fp64"}},
                         {"", 1, {"train.precision=bf16"}},
                         {"", 1, {"train.precision=bf16_pure"}}};
const Choices batches{
    {"", 1, {"train.accumulation=1"}}, {"", 1, {"train.accumulation=2"}}, {"", 1, {"train.accumulation=4"}}};
const Choices data_ranks{{"", 1}, {"", 2}};

struct Drawn {
  std::string config;
  std::vector<std::string> overrides;
  int world = 1;

  std::string text() const { return cat(config, join(overrides, " "), ", ", world, " ranks"); }
};

// Each kind has its first choice, mostly nothing, half of the time. Tables stand in any order.
Drawn draw(std::mt19937& random) {
  const auto below = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  while (true) {
    Drawn drawn;
    std::vector<std::string> tables{models[below(models.size())].tables};
    for (const auto* kind : {&tensor, &context, &experts, &stages, &shards, &again, &adapters, &few_bits, &rules,
                             &objectives, &data, &precisions, &batches, &data_ranks}) {
      const auto& choice = (*kind)[below(2) == 0 ? 0 : below(kind->size())];
      tables.push_back(choice.tables);
      drawn.overrides.insert(drawn.overrides.end(), choice.overrides.begin(), choice.overrides.end());
      drawn.world *= choice.ranks;
    }
    if (drawn.world > 8) continue;
    std::shuffle(tables.begin(), tables.end(), random);
    drawn.config = join(tables, "");
    return drawn;
  }
}

class Ranks {
 public:
  explicit Ranks(const Drawn& drawn) : world_(drawn.world) {
    host_.add(testing::tiny_model());
    host_.add(testing::tiny_data());
    folder_.write("base.toml",
                  "[run]\nseed = 3\ndevice = \"cpu\"\n[data]\nplugin = \"tiny\"\nsamples = 70\n"
                  "[train]\nglobal_batch = 48\nmax_steps = 1\n[optimizer]\nlr = 1e-3\n");
    file_ = folder_.write("run.toml", "extends = \"base.toml\"\n" + drawn.config);
    overrides_ = drawn.overrides;
  }

  // What one rank says before anything is allocated, `check` being the first.
  std::string refusal(int rank) {
    setup::JobRequest request;
    request.file = file_;
    request.overrides = overrides_;
    request.world_size = world_;
    request.rank = rank;
    Diagnostics faults;
    try {
      auto job = job::make_job(request, host_, faults);
      if (job) jobs_.push_back(std::move(*job));
    } catch (const Error& error) {
      return error.what();
    }
    std::vector<std::string> texts;
    for (const auto& fault : faults.list()) texts.push_back(fault.text());
    return join(texts, "\n");
  }

  // The first step; empty: it was made.
  std::string train() {
    testing::TrainResult result;
    testing::Collected collected(result);
    try {
      comm::run_in_process(world_, [&](comm::Communicator& communicator) {
        auto& job = jobs_.at(static_cast<std::size_t>(communicator.world().rank));
        testing::train_rank(std::move(job), communicator, {}, collected);
      });
    } catch (const std::exception& error) {
      return error.what();
    }
    const bool is_number = result.losses.size() == 1 && std::isfinite(result.losses.front());
    return is_number ? "" : "the loss of the first step is no number";
  }

 private:
  int world_;
  test::Folder folder_;
  plugin::Host host_;
  std::string file_;
  std::vector<std::string> overrides_;
  std::vector<job::Job> jobs_;
};

// How many of them are accepted.
int compare(int count, std::uint32_t seed) {
  at::set_num_threads(1);
  std::mt19937 random(seed);
  int accepted = 0;
  for (int i = 0; i < count; ++i) {
    const auto drawn = draw(random);
    INFO(drawn.text());
    Ranks ranks(drawn);
    const auto checked = ranks.refusal(0);
    for (int rank = 1; rank < drawn.world; ++rank) CHECK(ranks.refusal(rank) == checked);
    if (!checked.empty()) continue;
    ++accepted;
    CHECK(ranks.train() == "");
  }
  return accepted;
}

}  // namespace

TEST_CASE("what check accepts trains its first step, and what it refuses every rank refuses in the same words",
          "[matrix]") {
  CHECK(compare(100, 51) >= 30);
}

TEST_CASE("check and run, on many more configurations", "[.][full][matrix]") { CHECK(compare(3000, 52) >= 900); }

}  // namespace check_and_run_test
