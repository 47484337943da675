// Pairs of plugins that no matrix has together: weights or products in few bits, whole matrices and host memory, with
// stages and with ranks that share tokens. Gradients by name are one rank's.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/compositions.h"
#include "support/layouts.h"

namespace pairs_test {

using namespace capstan;
using namespace capstan::testing;
using capstan::testing::train;  // capstan::train is a namespace, too

namespace {

constexpr double tolerance = 1e-10;

const std::string fsdp = "[strategy.fsdp]\n", recompute = "[strategy.recompute]\n";
const std::string tp = "[strategy.tensor_parallel]\nsize = 2\n";

std::string pipeline(const std::string& schedule) {
  return "[strategy.pipeline_parallel]\nsize = 2\nschedule = \"" + schedule + "\"\n";
}

std::string context(int size, const std::string& method) {
  return "[strategy.context_parallel]\nsize = " + std::to_string(size) + "\nmethod = \"" + method + "\"\n";
}

// Six units, so that schedules with two stages a rank have their cut.
std::string of_four_blocks(const std::string& config) {
  auto text = config;
  const std::string two = "num_layers = 2";
  return text.replace(text.find(two), two.size(), "num_layers = 4");
}

const std::string eight_bits =
    "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\nattention_bias = true\nmlp_bias = true\n"
    "tie_word_embeddings = true\n";
const std::string whole_blocks = "hidden_size = 128\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 128\n";
const std::string four_bits =
    "hidden_size = 256\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 128\nattention_bias = true\n";
const std::string adapters = "[strategy.lora]\ntargets = [\"linear_qkv\", \"linear_proj\"]\ninit = \"random\"\n";

// Every second of them, from the first or from the second on: few bits with a split are shown by themselves too.
std::vector<Split> half_of(const std::vector<Split>& splits, std::size_t first) {
  std::vector<Split> half;
  for (std::size_t i = first; i < splits.size(); i += 2) half.push_back(splits[i]);
  return half;
}

}  // namespace

TEST_CASE("float64: products in 8 bits, in stages", "[matrix][train]") {
  const std::string fp8 = "[strategy.fp8]\n";
  const std::vector<Split> splits{{2, pipeline("1f1b")},
                                  {2, pipeline("zero_bubble")},
                                  {2, pipeline("interleaved") + recompute},
                                  {4, pipeline("1f1b") + tp}};
  check_splits(of_four_blocks(configuration("llama", eight_bits, fp8)), splits, tolerance);
  check_splits(of_four_blocks(configuration("llama", eight_bits, fp8 + "recipe = \"tensorwise\"\n")),
               {splits[0], splits[2]}, tolerance);
  check_splits(of_four_blocks(configuration("llama", whole_blocks, fp8 + "recipe = \"blockwise\"\n")),
               {splits[0], {2, pipeline("zero_bubble")}}, tolerance);
}

// Routers score by matrices of their own precision, beside experts and projections of fewer bits.
TEST_CASE("float64: sigmoid routers beside products in 8 bits, and beside frozen weights in 4", "[matrix][train]") {
  const std::string shared = "hidden_size = 128\nnum_heads = 4\nff_dim = 64\nnum_experts = 4\nexpert_dim = 256\n";
  const std::string ep = "[strategy.expert_parallel]\nsize = 2\n";
  const std::string fp8 = "[strategy.fp8]\nbackward = \"bf16\"\n";
  const std::string nf4 =
      "[strategy.lora]\ntargets = [\"all-linear\"]\ninit = \"random\"\n[strategy.nf4]\ntargets = [\"experts\"]\n";
  // Each split with both models and with both kinds of few bits.
  const std::vector<Split> some{{2, tp}, {2, fsdp + recompute}}, others{{2, ep}, {2, pipeline("1f1b")}};
  const auto glm = shared + "num_kv_heads = 4\nhead_dim = 16\nexpert_groups = 2\nweights_scale = 1.5\n";
  check_splits(configuration("glm4_moe", glm, fp8), some, tolerance);
  check_splits(configuration("glm4_moe", glm, nf4), others, tolerance);
  const auto deepseek = shared + "query_rank = 32\nkey_rank = 32\nstill_dim = 16\nturned_dim = 16\nvalue_dim = 16\n";
  check_splits(configuration("deepseek_v3", deepseek, fp8), others, tolerance);
  check_splits(configuration("deepseek_v3", deepseek, nf4), some, tolerance);
}

// Rows are tokens: where no sum over tokens is rounded, it does not matter which rank has which.
TEST_CASE("float64: products in 8 bits, in stages of sharded samples", "[matrix][train]") {
  check_splits(of_four_blocks(configuration("llama", eight_bits, "[strategy.fp8]\nbackward = \"bf16\"\n")),
               {{4, pipeline("zero_bubble") + fsdp}, {8, pipeline("1f1b") + fsdp + tp}}, tolerance);
}

TEST_CASE("float64: products in 8 bits, on ranks that share tokens", "[matrix][train]") {
  const auto config = configuration("llama", eight_bits, "[strategy.fp8]\nbackward = \"bf16\"\n");
  check_splits(config,
               {{2, context(2, "gather")},
                {4, context(4, "ulysses")},
                {3, context(3, "ring")},
                {4, context(2, "ulysses") + fsdp},
                {4, context(2, "gather") + tp + recompute}},
               tolerance);
}

TEST_CASE("float64: frozen weights in 4 bits, in stages and on ranks that share tokens", "[matrix][train]") {
  const auto config = of_four_blocks(configuration("llama", four_bits, adapters + "[strategy.nf4]\n"));
  check_splits(config,
               {{2, pipeline("1f1b")},
                {4, pipeline("zero_bubble") + fsdp},
                {2, pipeline("interleaved") + recompute},
                {2, context(2, "gather")},
                {4, context(2, "ulysses") + fsdp},
                {3, context(3, "ring")},
                {4, pipeline("1f1b") + context(2, "gather")}},
               tolerance);
}

TEST_CASE("float64: muon on ranks that share tokens, in stages and not", "[matrix][train]") {
  const auto config =
      family_config(dense()) +
      "[optimizer]\nplugin = \"muon\"\nlr = 0.02\nwarmup_steps = 0\nweight_decay = 0.1\nadamw_lr_factor = 0.1\n";
  check_splits(config,
               {{3, context(3, "gather")},
                {4, context(2, "ulysses") + fsdp},
                {4, pipeline("zero_bubble") + context(2, "gather")},
                {8, pipeline("1f1b") + context(2, "ulysses") + fsdp}},
               tolerance);
}

// The first and the last stage hold the embedding both.
TEST_CASE("float64: values that rank 0 sends, or that stay in host memory, in stages with a tied head",
          "[matrix][train]") {
  const std::string zero3 = "[strategy.zero]\nstage = 3\noffload_optimizer = \"cpu\"\noffload_param = \"cpu\"\n";
  for (const auto& family : {dense(), families()[3]}) {
    check_splits(of_four_blocks(family_config(family)),
                 {{4, pipeline("1f1b") + fsdp + "sync_module_states = true\n"},
                  {4, pipeline("interleaved") + fsdp + "cpu_offload = true\nsync_module_states = true\n"},
                  {4, pipeline("zero_bubble") + fsdp + "cpu_offload = true\n"},
                  {4, pipeline("1f1b") + zero3}},
                 tolerance);
  }
}

// Tiles of 5 tokens end within rows, and on ranks that share tokens within their pieces.
TEST_CASE("float64: feed-forwards by tiles and inputs in host memory, with few bits, stages and shared tokens",
          "[matrix][train]") {
  const std::string away = "[strategy.recompute]\ntile_tokens = 5\noffload = 1.0\n";
  const std::string half = "[strategy.recompute]\nregions = [\"mlp\", \"attention\"]\ntile_tokens = 5\noffload = 0.5\n";
  const std::vector<Split> splits{{1, away},
                                  {1, half},
                                  {2, pipeline("1f1b") + away},
                                  {2, pipeline("zero_bubble") + half},
                                  {3, context(3, "gather") + away},
                                  {4, context(2, "ulysses") + fsdp + away},
                                  {4, tp + fsdp + half}};
  check_splits(of_four_blocks(family_config(dense())), splits, tolerance);
  const std::string fp8 = "[strategy.fp8]\nbackward = \"bf16\"\n";
  check_splits(of_four_blocks(configuration("llama", eight_bits, fp8)), half_of(splits, 0), tolerance);
  const auto nf4 = of_four_blocks(configuration("llama", four_bits, adapters + "[strategy.nf4]\n"));
  check_splits(nf4, half_of(splits, 1), tolerance);
  check_splits(nf4, {{3, context(3, "ring") + half}}, tolerance);
}

// Attention is kept where its fused kernels run, so without dropout on its probabilities.
TEST_CASE("float64: attention that is kept, with few bits, stages, shared tokens, experts and packed rows",
          "[matrix][train]") {
  const std::string kept = "[strategy.recompute]\nkeep_attention = true\n", away = kept + "offload = 1.0\n";
  const std::string dropout = "attention_dropout = 0.1\n", packing = "[data]\npacking = true\n";
  const auto without_dropout = [&](const Family& family) {
    auto config = family_config(family);
    return config.replace(config.find(dropout), dropout.size(), "");
  };
  const std::vector<Split> splits{{1, kept},
                                  {2, pipeline("1f1b") + away},
                                  {2, pipeline("zero_bubble") + away + "tile_tokens = 5\n"},
                                  {3, context(3, "gather") + away},
                                  {4, context(2, "ulysses") + fsdp + away},
                                  {4, tp + fsdp + kept}};
  check_splits(of_four_blocks(without_dropout(dense())), splits, tolerance);
  check_splits(of_four_blocks(without_dropout(dense()) + packing), half_of(splits, 1), tolerance);
  const std::string fp8 = "[strategy.fp8]\nbackward = \"bf16\"\n";
  check_splits(of_four_blocks(configuration("llama", eight_bits, fp8)), {splits[1], splits[4]}, tolerance);
  check_splits(of_four_blocks(configuration("llama", four_bits, adapters + "[strategy.nf4]\n")), half_of(splits, 0),
               tolerance);
  const std::string ep = "[strategy.expert_parallel]\nsize = 2\n";
  check_splits(without_dropout(mixture()), {{1, away}, {4, ep + fsdp + kept}, {4, ep + tp + away}}, tolerance);
}

TEST_CASE("float64: parameters that are gathered once a step, with few bits, adapters, whole matrices and host memory",
          "[matrix][train]") {
  const std::string zero3 = "[strategy.zero]\nstage = 3\noffload_optimizer = \"cpu\"\noffload_param = \"cpu\"\n";
  const std::string muon = "[optimizer]\nplugin = \"muon\"\nlr = 0.01\nadamw_lr_factor = 0.1\n";
  const std::vector<Split> splits{
      {2, fsdp + recompute}, {2, fsdp + "cpu_offload = true\n"}, {2, zero3},
      {4, tp + fsdp},        {4, context(2, "gather") + fsdp},   {4, pipeline("zero_bubble") + fsdp}};
  const std::vector<std::string> configs{
      of_four_blocks(family_config(dense())), of_four_blocks(family_config(dense())) + muon,
      of_four_blocks(configuration("llama", eight_bits, "[strategy.fp8]\nbackward = \"bf16\"\n")),
      of_four_blocks(configuration("llama", four_bits, adapters + "[strategy.nf4]\n"))};
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const auto& config = configs[i];
    const auto alone = run_of(config);
    for (const auto& [world, tables] : i == 0 ? splits : half_of(splits, i % 2)) {
      INFO(config << tables);
      const auto once = train({.world = world,
                               .config = config + tables,
                               .overrides = {same_micro_steps, "train.regather=step"},
                               .steps = layout_steps});
      CHECK(differences(once, alone, tolerance) == "");
    }
  }
}

}  // namespace pairs_test
