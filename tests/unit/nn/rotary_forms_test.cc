// Rotations of part of a head, of pairs and of a whole head's frequencies; longrope; queries that grow with their
// position.
#include <ATen/ATen.h>
#include <capstan/nn/attention_table.h>
#include <capstan/nn/rotary.h>
#include <capstan_catch.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "nn/weights.h"
#include "ops/jacobian.h"

namespace rotary_forms_test {

using namespace capstan;
using capstan::testing::difference;
using capstan::testing::jacobian_error;
using capstan::testing::numbers;

namespace {

constexpr std::int64_t dim = 8;

/// Two packed documents, and one that begins in the middle, as a rank's columns do.
at::Tensor some_positions() { return at::tensor({0, 1, 2, 0, 1, 5, 6, 7, 8, 9}, at::kLong).view({2, 5}); }

nn::RotaryForm part(std::int64_t turned) {
  nn::RotaryForm form;
  form.turned = turned;
  return form;
}

nn::RotaryScaling longrope() {
  nn::RotaryScaling scaling;
  scaling.kind = nn::RotaryScaling::Kind::longrope;
  scaling.factor = 4;
  scaling.original_length = 16;
  scaling.divisors = {1, 2, 5};
  return scaling;
}

/// Numbers 2 i of heads [B, S, heads, n], then numbers 2 i + 1.
at::Tensor halves(const at::Tensor& pairs) {
  return at::cat({pairs.slice(-1, 0, std::nullopt, 2), pairs.slice(-1, 1, std::nullopt, 2)}, -1);
}

}  // namespace

TEST_CASE("a part turns as a head of its width does, and the rest stays as it is") {
  const auto x = numbers({2, 5, 3, dim}, 0.3), positions = some_positions();
  for (const std::int64_t turned : {2, 6}) {
    INFO(turned);
    const auto out = nn::Rotary(dim, 100, {}, part(turned)).forward(x, positions);
    CHECK(out.is_contiguous());
    CHECK(at::equal(out.narrow(-1, turned, dim - turned), x.narrow(-1, turned, dim - turned)));
    CHECK(
        at::equal(out.narrow(-1, 0, turned), nn::Rotary(turned, 100, {}).forward(x.narrow(-1, 0, turned), positions)));
  }
  const nn::Rotary whole(dim, 100, {}, part(dim));
  CHECK(whole.is_plain());
  CHECK(at::equal(whole.forward(x, positions), nn::Rotary(dim, 100, {}).forward(x, positions)));
  CHECK_FALSE(nn::Rotary(dim, 100, {}, part(6)).is_plain());
}

TEST_CASE("pairs turn as the halves that they would make") {
  const auto x = numbers({2, 5, 3, dim}, 0.3), positions = some_positions();
  for (const std::int64_t turned : {4, 8}) {
    INFO(turned);
    auto form = part(turned);
    form.interleaved = true;
    const auto out = nn::Rotary(dim, 100, {}, form).forward(x, positions);
    const auto expected = nn::Rotary(turned, 100, {}).forward(halves(x.narrow(-1, 0, turned)), positions);
    CHECK(out.is_contiguous());
    CHECK(at::equal(halves(out.narrow(-1, 0, turned)), expected));
    CHECK(at::equal(out.narrow(-1, turned, dim - turned), x.narrow(-1, turned, dim - turned)));
  }
}

TEST_CASE("a part may have the whole head's first frequencies, and the others stand still") {
  auto form = part(4);
  form.of_whole_head = true;
  const nn::Rotary rotary(dim, 100, {}, form);
  const auto whole = nn::Rotary(dim, 100, {}).frequencies(at::kDouble);
  CHECK(rotary.frequencies(at::kDouble) == std::vector<double>{whole[0], whole[1], 0, 0});
}

TEST_CASE("longrope divides each frequency by its own number, and q and k grow by one factor") {
  const auto divided = nn::Rotary(6, 100, longrope()).frequencies(at::kDouble);
  const auto plain = nn::Rotary(6, 100, {}).frequencies(at::kDouble);
  for (std::size_t i = 0; i < 3; ++i) CHECK(divided[i] == Approx(plain[i] / longrope().divisors[i]).epsilon(1e-15));
  const auto each = std::sqrt(1 + std::log(4.0) / std::log(16.0));
  CHECK(longrope().score_factor() == Approx(each * each).epsilon(1e-15));
  auto said = longrope();
  said.attention_factor = 1.5;
  CHECK(said.score_factor() == 2.25);
  said.attention_factor.reset();
  said.factor = 1;
  CHECK(said.score_factor() == 1);
  // Scores are multiplied where a whole head turns, else q and k in the part that does.
  const auto x = numbers({2, 5, 3, dim}, 0.3), positions = some_positions();
  const auto out = nn::Rotary(dim, 100, longrope(), part(6)).forward(x, positions);
  const auto turned = nn::Rotary(6, 100, longrope()).forward(x.narrow(-1, 0, 6), positions);
  CHECK(difference(out.narrow(-1, 0, 6), turned * each) < 1e-14);
  CHECK(at::equal(out.narrow(-1, 6, 2), x.narrow(-1, 6, 2)));
}

TEST_CASE("YaRN's limits are whole frequencies or not") {
  nn::RotaryScaling yarn;
  yarn.kind = nn::RotaryScaling::Kind::yarn;
  yarn.factor = 4;
  yarn.original_length = 64;
  yarn.fast_turns = 4;
  const auto whole = nn::Rotary(16, 100, yarn).frequencies(at::kDouble);
  yarn.whole_limits = false;
  const auto exact = nn::Rotary(16, 100, yarn).frequencies(at::kDouble);
  CHECK(whole != exact);
  const auto limit = [](double turns) {
    return 16 * std::log(64 / (turns * 2 * std::numbers::pi)) / (2 * std::log(100));
  };
  for (std::size_t i = 0; i < 8; ++i) {
    const auto ramp = std::clamp((static_cast<double>(i) - limit(4)) / (limit(1) - limit(4)), 0.0, 1.0);
    const auto plain = std::pow(100.0, -static_cast<double>(i) / 8);
    CHECK(exact[i] == Approx(plain / 4 * ramp + plain * (1 - ramp)).epsilon(1e-13));
  }
}

TEST_CASE("the backward of every form is its Jacobian") {
  const auto positions = some_positions();
  auto pairs = part(4);
  pairs.interleaved = true;
  auto of_whole = part(4);
  of_whole.of_whole_head = true;
  for (const auto& rotary : {nn::Rotary(dim, 100, {}, part(6)), nn::Rotary(dim, 100, longrope(), part(6)),
                             nn::Rotary(dim, 100, {}, pairs), nn::Rotary(dim, 100, {}, of_whole)}) {
    const auto turn = [&](const std::vector<at::Tensor>& x) { return rotary.forward(x[0], positions); };
    CHECK(jacobian_error(turn, {numbers({2, 5, 2, dim}, 0.3)}) < 1e-8);
  }
}

TEST_CASE("queries grow with the position in their document, and keys do not") {
  nn::Batch batch;
  batch.positions = some_positions();
  const nn::QueryScaling scaling{0.5, 2};
  nn::HeadsCall call;
  call.own = {2, 1, dim};
  call.batch = &batch;
  const auto fused = numbers({2, 5, 4 * dim}, 0.7);
  const auto prepare = [&](const nn::QueryScaling* of) {
    call.query_scaling = of;
    call.fused = fused.clone();
    return nn::HeadsTable().row_for(call)->run(call);
  };
  const auto plain = prepare(nullptr), scaled = prepare(&scaling);
  const auto factor = 1 + 0.5 * (1 + batch.positions.div(2, "floor").to(at::kDouble)).log();
  CHECK(factor[0][3].item<double>() == 1);  // a document begins there
  CHECK(difference(scaled.q, plain.q * factor.unsqueeze(-1).unsqueeze(-1)) < 1e-15);
  CHECK(at::equal(scaled.k, plain.k));
  CHECK(at::equal(scaled.v, plain.v));
}

}  // namespace rotary_forms_test
