#include <ATen/ATen.h>
#include <capstan/nn/weight.h>
#include <capstan_catch.h>

#include <stdexcept>
#include <vector>

namespace weight_test {

using namespace capstan;

TEST_CASE("a weight: name and size of one record and of a fused group, value only when bound") {
  const auto q = nn::record("h.0.attn.q.weight", {4, 3}, layout::Init::zeros(), true);
  auto k = nn::record("h.0.attn.k.weight", {2, 3}, layout::Init::zeros(), true);
  const nn::Weight one(std::vector<layout::Param>{q});
  nn::Weight fused(std::vector<layout::Param>{q, k});
  CHECK(one.name() == "h.0.attn.q.weight");
  CHECK(fused.name() == "h.0.attn.q+k.weight");
  CHECK(one.numel() == 12);
  CHECK(fused.numel() == 18);
  CHECK(fused.trainable());
  CHECK(!fused.is_bound());
  CHECK_THROWS_AS(fused.value(), std::logic_error);
  fused.bind(at::zeros({6, 3}));
  CHECK(fused.is_bound());
  k.trainable = false;
  CHECK_THROWS_AS(nn::Weight(std::vector<layout::Param>{q, k}), std::logic_error);
}

}  // namespace weight_test
