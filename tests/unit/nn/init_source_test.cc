#include "nn/init_source.h"

#include <ATen/ATen.h>
#include <capstan/nn/weight.h>
#include <capstan_catch.h>

#include <cmath>

namespace init_source_test {

using namespace capstan;

TEST_CASE("initial values are the record's, and any box is a slice of the whole") {
  nn::InitSource source(5);
  const auto fill = [&](const layout::Init& init, const layout::Box& box, std::uint64_t seed = 5) {
    auto out = at::full({box.numel()}, 99.0, at::kDouble);
    nn::InitSource(seed).fill(nn::record("w", {40, 50}, init, true), box, out);
    return out.view(box.size);
  };
  const auto whole = layout::Box::whole({40, 50});
  const layout::Box part{{7, 11}, {5, 3}};
  CHECK(source.has(nn::record("w", {1}, layout::Init::zeros(), true)));
  CHECK(fill(layout::Init::zeros(), part).eq(0).all().item<bool>());
  CHECK(fill(layout::Init::ones(), part).eq(1).all().item<bool>());
  CHECK(fill(layout::Init::constant(-3), part).eq(-3).all().item<bool>());
  const auto normal = fill(layout::Init::normal(0.1, 2), whole);
  CHECK(at::equal(fill(layout::Init::normal(0.1, 2), part), normal.narrow(0, 7, 5).narrow(1, 11, 3)));
  CHECK(!at::equal(fill(layout::Init::normal(0.1, 2), whole, 6), normal));
  // 2,000 numbers: the mean is within 6 standard errors (0.1 / sqrt(2000)), the deviation likewise (0.1 / sqrt(4000)).
  CHECK(std::abs(normal.mean().item<double>() - 2) < 6 * 0.1 / std::sqrt(2000.0));
  CHECK(std::abs(normal.std().item<double>() - 0.1) < 6 * 0.1 / std::sqrt(4000.0));
}

TEST_CASE("uniform initial values have the deviation that they are given") {
  const auto out = at::empty({2000}, at::kDouble);
  const auto record = nn::record("w", {40, 50}, layout::Init::uniform(0.1), true);
  nn::InitSource(5).fill(record, layout::Box::whole({40, 50}), out);
  CHECK(out.abs().max().item<double>() < 0.1 * std::sqrt(3.0) + 1e-12);
  CHECK(std::abs(out.std().item<double>() - 0.1) < 6 * 0.1 / std::sqrt(4000.0));
}

}  // namespace init_source_test
