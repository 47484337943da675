// Adapters learn the same on every layout, and are what their formula says.
#include <ATen/ATen.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "hf/merged_source.h"
#include "job/assemble.h"
#include "nn/init_source.h"
#include "plugins/strategies/lora/jobs.h"

namespace forward_test {

using namespace capstan;
using namespace lora_test;

namespace {

// float64 sums in another order, amplified by AdamW: what the project promises.
constexpr double tolerance = 1e-10;

struct Case {
  std::string name;
  std::string config;
};

const std::vector<Case> cases{
    {"gpt, roles, dropout",
     gpt + lora_table("targets = [\"linear_qkv\", \"linear_proj\", \"linear_fc1\", \"linear_fc2\"]\n"
                      "dropout = 0.2\nalpha = 7\n")},
    {"llama, modules", llama + lora_table("targets = [\"q_proj\", \"v_proj\", \"up_proj\"]\ndropout = 0.1\n")},
    {"llama, everything, head", llama + lora_table("targets = [\"all-linear\"]\nmodules_to_save = [\"lm_head\"]\n"
                                                   "rank_stabilised = true\n")},
    {"bloom, biases", bloom + lora_table("targets = [\"query_key_value\"]\nbias = \"lora_only\"\n")},
    {"mixtral, experts", mixtral + lora_table("targets = [\"linear_qkv\", \"experts\", \"gate\"]\n")},
    {"qwen3, everything", qwen3 + "ff_dim = 22\n" + lora_table("targets = [\"all-linear\"]\ndropout = 0.1\n")},
    {"qwen3, experts", qwen3 + "model_type = \"qwen3_moe\"\nexpert_dim = 10\nnum_experts = 3\n" +
                           lora_table("targets = [\"q_proj\", \"experts\", \"gate\"]\n")},
    {"olmo2, a module, norms", olmo2 + lora_table("targets = [\"k_proj\"]\nmodules_to_save = [\"q_norm\"]\n")},
    {"mixtral, experts, dropout", mixtral + lora_table("targets = [\"experts\"]\ndropout = 0.3\n")},
};

}  // namespace

TEST_CASE("float64: adapters learn the same on every layout", "[matrix]") {
  for (const auto& one : cases) {
    const auto alone = testing::train({.world = 1, .config = one.config, .steps = 5});
    REQUIRE(alone.losses.back() < alone.losses.front());
    for (const auto& [name, gradient] : alone.gradients) {
      INFO(one.name << " " << name);
      CHECK(gradient.abs().max().item<double>() > 0);
    }
    for (const char* strategy :
         {"[strategy.fsdp]\n", "[strategy.zero]\nstage = 2\n",
          "[strategy.fsdp]\nmode = \"no_shard\"\n[strategy.recompute]\n",
          "[strategy.zero]\nstage = 3\noffload_optimizer = \"cpu\"\noffload_param = \"cpu\"\n"}) {
      const int world = strategy[10] == 'f' ? 3 : 2;
      INFO(one.name << ", " << world << " ranks, " << strategy);
      CHECK(testing::differences(testing::train({.world = world, .config = one.config + strategy, .steps = 5}), alone,
                                 tolerance) == "");
    }
  }
}

// The loss with adapters is that of the base model with W + alpha / rank · B A in place of W. (Evaluation drops
// nothing.)
TEST_CASE("merged weights compute what adapters do") {
  at::set_num_threads(1);
  for (const auto& one : cases) {
    INFO(one.name);
    const Scratch scratch;
    const auto write = [&](const char* name, const std::string& text) {
      const auto file = scratch.path() / name;
      std::ofstream(file)
          << "[run]\ndevice = \"cpu\"\nseed = 5\n[train]\nmax_steps = 1\nglobal_batch = 6\nprecision = \"fp64\"\n"
             "[data]\nplugin = \"synthetic\"\n"
          << text;
      return file.string();
    };
    const auto with = testing::prepare_small(write("with.toml", one.config), {}, 1, 0);
    const auto without = testing::prepare_small(
        write("without.toml", one.config.substr(0, one.config.find("[strategy.lora]"))), {}, 1, 0);
    const auto loss = [&](const job::Job& job, step::Session& session) {
      step::Feed feed(job);
      return step::Evaluator(session, feed).loss(*job.samples.train).loss;
    };
    comm::run_in_process(1, [&](comm::Communicator& communicator) {
      auto adapted = step::materialise(with, communicator);
      std::vector<const nn::Adapter*> adapters;
      for (const auto& unit : adapted.units) {
        for (const auto& adapter : unit->adapters()) adapters.push_back(&adapter);
      }
      const double expected = loss(with, adapted);
      comm::run_in_process(1, [&](comm::Communicator& other) {
        auto plain = step::materialise(without, other);
        nn::InitSource base(5);
        hf::MergedSource merged(base, base, adapters);
        plain.engine->fill(merged);
        // Two products in another order, in float64.
        CHECK(loss(without, plain) == Approx(expected).epsilon(1e-12));
      });
    });
  }
}

}  // namespace forward_test
