// Which layers multiply in 8 bits, and what is refused.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <capstan/plugin/host.h>
#include "job/job.h"
#include "support/families.h"
#include "support/folder.h"

namespace refusals_test {

using namespace capstan;

namespace {

const std::string llama = "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\n";
const std::string biased = llama + "attention_bias = true\n";
// Two ranks' pieces are whole blocks.
const std::string llama_256 =
    "hidden_size = 256\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 256\nattention_bias = true\nmlp_bias = true\n";

const std::string tensorwise = "[strategy.fp8]\nrecipe = \"tensorwise\"\n";
const std::string in_bytes = "gather = \"fp8\"\n";
const std::string stored = "[strategy.fp8]\nstore = \"fp8\"\n";
const std::string blocks = "[strategy.fp8]\nrecipe = \"blockwise\"\n";
const std::string stored_blocks = blocks + "store = \"fp8\"\n";
const std::string two_tensor = "[strategy.tensor_parallel]\nsize = 2\n";
const std::string adapters = "[strategy.lora]\ntargets = [\"all-linear\"]\ninit = \"random\"\n";

std::string error_of(const std::string& tables, const std::string& model = llama, int world = 1,
                     const std::vector<std::string>& overrides = {}) {
  try {
    testing::Setting setting{.world = world, .overrides = overrides, .steps = 1};
    setting.config = testing::family_config({"llama", model}) + tables;
    testing::train(setting);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("names that the model does not have are refused, with those that it has") {
  const auto message = error_of("[strategy.fp8]\ntargets = [\"linear_qvk\"]\n");
  CHECK_THAT(message, Contains("targets names \"linear_qvk\", but the model has: all-linear, linear_qkv"));
  CHECK_THAT(message, Contains("did you mean 'linear_qkv'"));
}

TEST_CASE("where nothing is left to multiply the run does not start") {
  CHECK_THAT(error_of("[strategy.fp8]\nskip_first = 1\nskip_last = 7\n"), Contains("leaves nothing to multiply"));
  const auto odd = error_of("[strategy.fp8]\n", "hidden_size = 12\nnum_heads = 3\nff_dim = 22\n");
  CHECK_THAT(odd, Contains("no multiples of 16") && Contains("linear_fc2 [12 x 22]") && !Contains("default"));
}

TEST_CASE("fp16 is refused") {
  CHECK_THAT(error_of("[strategy.fp8]\n", llama, 1, {"train.precision=fp16"}), Contains("train.precision is \"fp16\""));
}

TEST_CASE("pieces that are no multiples of 16 are refused with the layer's name") {
  const auto message = error_of("[strategy.fp8]\n[strategy.tensor_parallel]\nsize = 4\n",
                                "hidden_size = 32\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\n", 4);
  CHECK_THAT(message, Contains("linear_proj is split into pieces of 32 x 8, and 3 more of the layers do not fit"));
}

namespace {

// What `check` says, as the first of these ranks.
std::string checked(const testing::Family& family, const std::string& tables, int world) {
  static plugin::Host host;
  const test::Folder folder;
  setup::JobRequest request;
  request.file =
      folder.write("run.toml", "[run]\ndevice = \"cpu\"\n[data]\nplugin = \"synthetic\"\n[train]\nmax_steps = 1\n" +
                                   testing::family_config(family) + tables);
  request.world_size = world;
  Diagnostics faults;
  (void)job::prepare(request, host, faults);
  return faults.empty() ? std::string() : faults.list().front().text();
}

}  // namespace

TEST_CASE("check refuses pieces that do not fit, of layers, experts and stored weights") {
  const testing::Family dense{"llama", "hidden_size = 32\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 48\n"};
  const testing::Family mixture{"mixtral",
                                "hidden_size = 32\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 48\nnum_experts = 4\n"};
  const std::string fp8 = "[strategy.fp8]\n", misfit = "/mlp/linear_fc2 is split into pieces of 32 x 24";
  CHECK_THAT(checked(dense, fp8 + two_tensor, 2),
             Contains("blocks.0" + misfit + ", and 1 more of the layers do not fit"));
  CHECK(checked(dense, fp8 + "targets = [\"linear_qkv\", \"linear_fc1\"]\n" + two_tensor, 2) == "");
  for (const std::string store : {"bf16", "fp8", "fp8_both"}) {
    INFO(store);
    CHECK_THAT(checked(dense, adapters + fp8 + "store = \"" + store + "\"\n" + two_tensor, 2), Contains(misfit));
  }
  CHECK_THAT(checked(mixture, fp8 + two_tensor, 2), Contains("experts is split into pieces of 32 x 24"));
  CHECK(checked(mixture, fp8 + "[strategy.expert_parallel]\nsize = 2\n", 2) == "");
}

TEST_CASE("what cannot be gathered in 8 bits is refused in words") {
  CHECK_THAT(
      error_of("[strategy.fsdp]\n[strategy.fp8]\n" + in_bytes, biased, 2),
      Contains("sends a scale for each weight, and recipe is \"rowwise\"") && Contains("recipe = \"tensorwise\""));
  CHECK_THAT(error_of("[strategy.fsdp]\ncpu_offload = true\n" + tensorwise + in_bytes, biased, 2),
             Contains("cannot be gathered in 8 bits by strategy 'fp8'") && Contains("do not offload"));
  CHECK_THAT(error_of("[strategy.fsdp]\nreshard_size = 2\n" + tensorwise + in_bytes, biased, 4),
             Contains("leave reshard_size out"));
}

TEST_CASE("what cannot be stored in 8 bits is refused in words") {
  CHECK_THAT(error_of(stored, biased), Contains("strategy.fp8.store = \"fp8\" keeps model.layers.0") &&
                                           Contains("would be trained") && Contains("add strategy.lora"));
  const std::string with_layer = "[strategy.lora]\nmodules_to_save = [\"linear_fc1\"]\n";
  CHECK_THAT(error_of(with_layer + stored, biased), Contains("keeps model.layers.0.mlp"));
  CHECK_THAT(error_of(adapters + stored + "recipe = \"tensorwise\"\n", biased),
             Contains("keeps scales of rows or blocks, and recipe is \"tensorwise\""));
}

TEST_CASE(
    "what a run's own config.toml sets, each option to its default, is taken; a band without a reference is not") {
  const std::string all = "accumulate = \"fast\"\nband = 0.02\nwindow = 50\n";
  for (const auto& table : {blocks, std::string("[strategy.fp8]\n")}) CHECK(error_of(table + all, llama_256) == "");
  CHECK_THAT(error_of(blocks + "band = 0.1\n", llama_256), Contains("strategy.fp8.reference, which is not set"));
}

TEST_CASE("what blocks cannot do is refused in words") {
  CHECK_THAT(error_of(blocks + "backward = \"e5m2\"\n", llama_256), Contains("multiplies only e4m3"));
  const std::string narrow = "hidden_size = 64\nnum_heads = 4\nff_dim = 64\n";
  CHECK_THAT(error_of(blocks, narrow),
             Contains("no multiples of 128 (experts: 16) are the sizes of") && Contains("linear_fc2 [64 x 64]"));
  const std::string small = "hidden_size = 128\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 128\n";
  CHECK_THAT(error_of(blocks + two_tensor, small, 2),
             Contains("linear_proj is split into pieces of 128 x 64") && Contains("by block take multiples of 128"));
  CHECK_THAT(error_of(stored_blocks + adapters + "[strategy.fsdp]\n", small, 2),
             Contains("a scale for each 128 x 128, and a rank has 64 x 128 of it") && Contains("store = \"bf16\""));
}

}  // namespace refusals_test
