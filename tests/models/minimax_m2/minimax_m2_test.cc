#include <capstan_catch.h>

#include "support/model.h"

namespace minimax_m2_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("minimax_m2: presets have the published model's parameters") {
  // A block: attention 3072 x 128 x (2 x 48 + 2 x 8), norms of q, k and states, 256 experts, a router and its
  // correction.
  const std::int64_t block =
      3072LL * 128 * 112 + 128LL * 56 + 2LL * 3072 + 256LL * 3 * 3072 * 1536 + 256LL * 3072 + 256;
  CHECK(parameters_of_presets("minimax_m2") ==
        std::map<std::string, std::int64_t>{{"minimax-m2", 62 * block + 2LL * 200064 * 3072 + 3072}});
}

TEST_CASE("minimax_m2: files say by one of two keys how much of a head turns, and have both afterwards") {
  const auto model =
      make_model("minimax_m2", tiny_with({{"head_dim", std::int64_t{8}}, {"rotary_dim", std::int64_t{6}}}));
  CHECK(model->file_map().more.at("partial_rotary_factor") == "0.75");
}

TEST_CASE("minimax_m2: a router's correction stands beside it in files") {
  const auto map = make_model("minimax_m2", tiny_with({}))->file_map();
  CHECK(map.tensors.at("model.layers.0.block_sparse_moe.gate.e_score_correction_bias").name ==
        "layers.0.block_sparse_moe.e_score_correction_bias");
}

TEST_CASE("minimax_m2: what does not fit is refused with its line and what to do") {
  const auto faults = [](const ModelOptions& more) { return model_faults("minimax_m2", tiny_with(more)); };
  CHECK(faults({}).empty());
  CHECK_THAT(
      faults({{"head_dim", std::int64_t{8}}, {"rotary_dim", std::int64_t{2}}, {"partial_rotary_factor", 0.5}}).front(),
      Contains("turn different parts"));
  CHECK_THAT(faults({{"rotary_dim", std::int64_t{6}}}).front(), Contains("is more than a head's numbers"));
  CHECK(faults({{"rotary_dim", std::int64_t{3}}}).size() == 1);
  CHECK_THAT(faults({{"experts_per_token", std::int64_t{9}}}).front(), Contains("use at most 8"));
}

}  // namespace minimax_m2_test
