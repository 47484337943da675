#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "support/model.h"

namespace hunyuan_v1_dense_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("hunyuan_v1_dense: presets have the published models' parameters") {
  CHECK(parameters_of_presets("hunyuan_v1_dense") == std::map<std::string, std::int64_t>{{"hunyuan-0.5b", 539010048},
                                                                                         {"hunyuan-1.8b", 1791080448},
                                                                                         {"hunyuan-4b", 4221757440},
                                                                                         {"hunyuan-7b", 7504568320}});
}

namespace {

nn::HeadsCall call_of(const nn::Attention& attention, const nn::Batch& batch) {
  const auto heads = attention.heads();
  return attention.heads_call(at::zeros({1, 1, (heads.queries + 2 * heads.keys) * heads.dim}), batch);
}

}  // namespace

TEST_CASE("hunyuan_v1_dense: q and k turn before their norms, by a base that alpha scales") {
  const ModelOptions options{{"rope_type", std::string("dynamic")}, {"rope_alpha", 8.0}, {"rope_factor", 1.0}};
  const auto units = make_model("hunyuan_v1_dense", tiny_with(options))->build();
  const nn::Batch batch;
  const auto* attention = units.at(1)->all<nn::Attention>().front();
  const auto call = call_of(*attention, batch);
  CHECK(attention->preparation().row_for(call)->name == "rotation, then norms");
  // Heads of 4 numbers: the second pair's frequency is the root of the base, 10000 times 8 squared.
  CHECK(call.rotary->frequencies(at::kDouble).at(1) == Approx(1.0 / std::sqrt(10000.0 * 64)));
}

TEST_CASE("hunyuan_v1_dense: a scaled base without its alpha is refused, and an alpha without it") {
  CHECK_THAT(model_faults("hunyuan_v1_dense", tiny_with({{"rope_type", std::string("dynamic")}})).front(),
             Contains("rope_alpha and rope_factor do not fit"));
  CHECK(model_faults("hunyuan_v1_dense", tiny_with({{"rope_alpha", 8.0}})).size() == 1);
}

}  // namespace hunyuan_v1_dense_test
