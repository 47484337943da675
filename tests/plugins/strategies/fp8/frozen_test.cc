#include "plugins/strategies/fp8/frozen.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "plugins/strategies/fp8/layers.h"
#include "plugins/strategies/fp8/multiplier.h"
#include "plugins/strategies/fp8/numbers.h"

namespace frozen_test {

using namespace fp8;
using namespace capstan;
using fp8_test::drawn;
using fp8_test::frozen;
using fp8_test::multiplier;

TEST_CASE("a frozen weight is rounded once, and again when its values change") {
  at::manual_seed(6);
  const auto x = drawn({6, 32}).requires_grad_(), w = drawn({16, 32});
  const auto how = multiplier(), keeping = frozen(w);
  auto& record = keeping->weight->records().front();
  const auto check = [&] {
    const auto y = Multiplier::multiply(keeping, x, w), expected = Multiplier::multiply(how, x, w);
    CHECK(at::equal(y, expected));
    const auto g = at::ones_like(y);
    CHECK(at::equal(torch::autograd::grad({y}, {x}, {g})[0], torch::autograd::grad({expected}, {x}, {g})[0]));
  };
  check();
  int made = 0;
  const auto make = [&] { return ++made, quantise(w, {}); };
  const auto kept = keeping->frozen->of(*keeping->weight, make).values;
  CHECK(made == 0);
  w.mul_(-3);  // its version moves
  check();
  w.unsafeGetTensorImpl()->bump_version();  // what the shard engine does when it fills it past autograd
  keeping->frozen->of(*keeping->weight, make);
  CHECK(made == 1);
  keeping->weight->bind(drawn({16, 32}));
  keeping->frozen->of(*keeping->weight, make);
  CHECK(made == 2);
  CHECK(Frozen::keeps(*keeping->weight));
  record.param.layout = record.compute.with({0, {layout::Axis::dp}});  // gathered for each use
  CHECK_FALSE(Frozen::keeps(*keeping->weight));
}

}  // namespace frozen_test
