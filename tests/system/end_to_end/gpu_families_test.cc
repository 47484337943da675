// Families whose kernels the small model of gpu_test.cc does not have, on GPUs.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "end_to_end/gpus.h"
#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace gpu_families_test {

using namespace end_to_end;
using capstan::cat;

namespace {

// Heads of 64, which the gated delta rule's kernels and fused attention with sinks take.
const std::string qwen3_5 =
    "plugin = \"qwen3_5\"\nfull_attention_interval = 2\ndelta_key_heads = 2\ndelta_value_heads = 4\n"
    "delta_key_dim = 64\ndelta_value_dim = 64\nff_dim = 256\n";
const std::string gpt_oss =
    "plugin = \"gpt_oss\"\nnum_experts = 4\nexperts_per_token = 2\nsliding_window = 50\nff_dim = 96\n";

struct Result {
  Metrics metrics;
  std::map<std::string, at::Tensor> weights;
};

Result run(const Workspace& work, const std::string& name, const std::string& model, const std::string& strategies) {
  const auto text =
      cat("[run]\nname = \"", name, "\"\ndir = \"", (work.folder() / "runs").string(),
          "\"\nseed = 3\ndevice = \"cuda\"\ndeterministic = true\n[model]\n", model,
          "vocab_size = 261\nhidden_size = 128\nnum_layers = 4\nnum_heads = 4\nnum_kv_heads = 2\nhead_dim = 64\n"
          "[data]\nplugin = \"synthetic\"\nsamples = 32\nmax_length = 201\n[train]\nmax_steps = 8\nmicro_batch = 2\n"
          "accumulation = 2\nprecision = \"bf16\"\n[optimizer]\nlr = 3e-3\n",
          strategies);
  const auto ran = work.run({"run", work.write(name + ".toml", text)});
  INFO(ran.all());
  REQUIRE(ran.code == 0);
  const auto folder = work.folder() / "runs" / name;
  return {read_metrics(folder), read_weights(folder)};
}

}  // namespace

TEST_CASE("deterministic: delta rules and sinks that are recomputed or kept change no bit on GPUs", "[.gpu]") {
  if (too_few_gpus(1)) return;
  const std::string model = GENERATE(qwen3_5, gpt_oss);
  const Workspace work;
  const auto plain = run(work, "plain", model, "");
  CHECK(plain.metrics.all("loss").size() == 8);
  int number = 0;
  for (const std::string option :
       {"every = 1", "regions = [\"attention\"]", "keep_attention = true", "offload = 1.0"}) {
    INFO(model << option);
    const auto again = run(work, cat("again-", number++), model, cat("[strategy.recompute]\n", option, "\n"));
    CHECK(again.metrics.all("loss") == plain.metrics.all("loss"));
    CHECK(again.metrics.all("grad_norm") == plain.metrics.all("grad_norm"));
    CHECK(bit_equal(again.weights, plain.weights));
  }
}

}  // namespace gpu_families_test
