// Which layers multiply in 8 bits, and what is refused.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <capstan/plugin/host.h>
#include "session/job.h"
#include "support/families.h"
#include "support/folder.h"

using namespace capstan;

namespace {

const std::string llama = "hidden_size = 64\nnum_heads = 4\nnum_kv_heads = 4\nff_dim = 64\n";

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
  CHECK_THAT(message, Contains("is split into pieces of") && Contains("linear_qkv"));
}
