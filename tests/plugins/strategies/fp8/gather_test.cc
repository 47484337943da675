// Weights that are trained, and gathered in 8 bits: what is learnt is what a gather in 16 bits leads to, bit for bit.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/families.h"

namespace gather_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr std::int64_t steps_of_gather = 3;

const std::string sizes_of_gather =
    "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\nattention_bias = true\n";
const std::string tensorwise = "[strategy.fp8]\nrecipe = \"tensorwise\"\n";
const std::string in_bytes = "gather = \"fp8\"\n";

Setting setting_of(int world, const std::string& tables, const std::vector<std::string>& overrides = {}) {
  Setting setting{.world = world, .overrides = overrides, .steps = steps_of_gather};
  setting.config = family_config({"llama", sizes_of_gather}) + tables;
  return setting;
}

void check_same(int world, const std::string& recipe, const std::string& layout,
                const std::vector<std::string>& overrides = {}) {
  INFO(world << " ranks\n" << recipe << layout);
  const auto in_16_bits = train(setting_of(world, layout + recipe, overrides));
  const auto in_8_bits = train(setting_of(world, layout + recipe + in_bytes, overrides));
  CHECK(differences(in_8_bits, in_16_bits, 0) == "");
  CHECK(in_8_bits.losses.back() < in_8_bits.losses.front());
}

}  // namespace

TEST_CASE("gathered in 8 bits, weights are multiplied as if they had come in 16", "[matrix]") {
  const std::string tensor2 = "[strategy.tensor_parallel]\nsize = 2\n";
  const std::vector<std::string> mixed{"train.precision=bf16"};
  const std::string full = "[strategy.fsdp]\n";
  check_same(2, tensorwise, full, mixed);
  check_same(3, tensorwise + "backward = \"e5m2\"\n", full + "cast = \"gather\"\n", mixed);
  check_same(2, tensorwise + "backward = \"bf16\"\n", full + "reshard_after_forward = false\n", mixed);
  check_same(2, tensorwise, full + "wrap = 3\n[strategy.recompute]\n",
             {"train.precision=bf16", "train.accumulation=2"});
  check_same(4, tensorwise, full + tensor2, mixed);
  for (const std::string stage : {"1", "2", "3"})
    check_same(2, tensorwise, "[strategy.zero]\nstage = " + stage + "\n", mixed);
  // Where nothing is gathered, and where masters are as wide as what units compute in.
  check_same(2, tensorwise, "", mixed);
  check_same(2, tensorwise, full, {"train.precision=fp32"});
}

TEST_CASE("experts are gathered in train.precision next to layers in 8 bits") {
  Setting setting{.world = 2, .overrides = {"train.precision=bf16"}, .steps = steps_of_gather};
  setting.config =
      family_config({"mixtral", "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\nnum_experts = 4\n"}) +
      "[strategy.fsdp]\n" + tensorwise;
  const auto in_16_bits = train(setting);
  setting.config += in_bytes;
  CHECK(differences(train(setting), in_16_bits, 0) == "");
}

TEST_CASE("adapters are trained on a base that is gathered as it is kept") {
  check_same(2, tensorwise, "[strategy.fsdp]\n[strategy.lora]\ntargets = [\"all-linear\"]\ninit = \"random\"\n");
}

TEST_CASE("a run that gathers in 8 bits resumes bit for bit") {
  const auto setting = setting_of(2, "[strategy.fsdp]\n" + tensorwise + in_bytes, {"train.precision=bf16"});
  CHECK(differences(train_resumed(setting, 2, setting), train(setting), 0) == "");
}

}  // namespace gather_test
