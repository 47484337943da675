// A mixture whose experts are spread over processes: over Gloo, through the program and what it writes.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <numeric>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace experts_test {

using namespace end_to_end;
using capstan::cat;

namespace {

constexpr double tolerance = 1e-10;  // for sums in float64 in another order

const char* const mixture =
    "[model]\nplugin = \"mixtral\"\nnum_experts = 4\nexperts_per_token = 2\nnum_kv_heads = 1\nff_dim = 10\n"
    "router_aux_loss = true\nrouter_aux_loss_coef = 0.5\ninit_std = 0.2\n";

std::string config(const std::string& more) {
  // The model's own lines are left out: small_config's are a GPT's.
  auto text = small_config({{"[model]", ""},
                            {"plugin = \"gpt\"", ""},
                            {"vocab_size", ""},
                            {"hidden_size", ""},
                            {"num_layers", ""},
                            {"num_heads", ""},
                            {"ff_dim", ""},
                            {"seq_length", ""},
                            {"dropout", ""},
                            {"micro_batch", ""},
                            {"global_batch", "global_batch = 24"},
                            {"max_steps", "max_steps = 5"}},
                           mixture);
  return text + "vocab_size = 261\nhidden_size = 12\nnum_layers = 2\nnum_heads = 3\nseq_length = 130\n" + more;
}

const std::vector<std::string> overrides{"train.precision=fp64", "train.accumulation=2", "train.generate_samples=5",
                                         "train.max_new_tokens=6"};

struct Result {
  Metrics metrics;
  std::map<std::string, at::Tensor> weights;
  std::string out;
};

Result run(const Workspace& work, const std::string& name, int ranks, const std::string& strategies) {
  const auto file = work.write(name + ".toml", config(strategies));
  std::vector<std::string> arguments{"run", file, "run.name=" + name};
  arguments.insert(arguments.end(), overrides.begin(), overrides.end());
  if (ranks > 1) arguments.insert(arguments.end(), {"-n", std::to_string(ranks)});
  const auto ran = work.run(arguments);
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  const auto folder = work.folder() / "runs" / name;
  return {read_metrics(folder), read_weights(folder), ran.out};
}

}  // namespace

TEST_CASE("over Gloo: experts on 2 and 4 processes train, evaluate and answer as on one", "[experts]") {
  const Workspace work;
  const auto alone = run(work, "alone", 1, "");
  for (const int ep : {2, 4}) {
    INFO("ep " << ep);
    const auto spread =
        run(work, cat("ep-", ep), 4,
            cat("[strategy.expert_parallel]\nsize = ", ep, "\n[strategy.fsdp]\n[strategy.recompute]\n"));
    // A run says who does what, as check does.
    CHECK_THAT(
        spread.out,
        Contains(cat("world 4 = dp ", 4 / ep, " x ep ", ep, " x tp 1 on cpu\nep ", ep,
                     " ranks hold the model once, and what is left over goes to data parallelism: "
                     "dp = 4 / ",
                     ep, " = ", 4 / ep,
                     "\nranks that share experts have samples of their own: data-parallel size = dp ", 4 / ep, " x ep ",
                     ep, " = 4\nglobal batch 24 = micro-batch 3 x accumulation 2 x data-parallel size 4\n")));
    CHECK(distance(spread.metrics.all("loss"), alone.metrics.all("loss")) < tolerance);
    CHECK(distance(spread.metrics.all("grad_norm"), alone.metrics.all("grad_norm")) < tolerance);
    REQUIRE(spread.metrics.evaluations.size() == alone.metrics.evaluations.size());
    for (std::size_t i = 0; i < alone.metrics.evaluations.size(); ++i) {
      for (const char* key : {"samples", "loss", "exact_match", "f1"}) {
        if (!alone.metrics.evaluations[i].contains(key)) continue;
        INFO("evaluation " << i << " " << key);
        CHECK(spread.metrics.evaluations[i].at(key).get<double>() ==
              Approx(alone.metrics.evaluations[i].at(key).get<double>()).epsilon(tolerance).margin(0));
      }
    }
    REQUIRE(spread.weights.size() == alone.weights.size());
    for (const auto& [name, weight] : alone.weights) {
      INFO(name);
      CHECK(spread.weights.at(name).sizes() == weight.sizes());
    }
    // What each expert computed: every token has two of them in each of two layers.
    for (std::size_t step = 0; step < alone.metrics.steps.size(); ++step) {
      double tokens = 0;
      for (int e = 0; e < 4; ++e) {
        const auto key = cat("expert_tokens_", e);
        CHECK(spread.metrics.steps[step].at(key) == alone.metrics.steps[step].at(key));
        tokens += alone.metrics.steps[step].at(key).get<double>();
      }
      CHECK(tokens == 4 * alone.metrics.steps[step].at("tokens").get<double>());
      CHECK(alone.metrics.steps[step].at("expert_load_max").get<double>() >= 1);
    }
  }
}

TEST_CASE("check shows the arithmetic of the mesh and the memory of rows on their way", "[experts]") {
  const Workspace work;
  const auto file = work.write("a.toml", config("[strategy.expert_parallel]\nsize = 2\n"));
  const auto checked = work.run({"check", file, "-n", "4"});
  INFO(checked.all());
  CHECK(checked.code == 0);
  for (const char* text :
       {"world 4 = dp 2 x ep 2 x tp 1",
        "ep 2 ranks hold the model once, and what is left over goes to data parallelism: dp = 4 / 2 = 2",
        "expert rows, even load x 1.5"}) {
    INFO(text);
    CHECK(checked.out.find(text) != std::string::npos);
  }
}

}  // namespace experts_test
