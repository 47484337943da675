#include "plugins/strategies/fp8/sent.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "plugins/strategies/fp8/numbers.h"

namespace sent_test {

using namespace fp8;

TEST_CASE("a weight that was sent has the numbers and the scale of one that is rounded whole") {
  at::manual_seed(8);
  const auto w = fp8_test::drawn({48, 32});
  const Rounding whole{.by_row = false}, turned{.by_row = false, .transposed = true};
  Sent sent;
  CHECK_FALSE(sent.arrives());
  const auto largest = magnitudes(w, whole);
  const auto bytes = at::empty({w.numel()}, at::kByte);
  sent.encode_to_gather(w.view({-1}), largest.view({1}), bytes);
  sent.bind_gathered(bytes.view({48, 32}), sent.scales_of(largest.view({1})));
  CHECK(sent.arrives());
  const auto expected = quantise(w, whole), columns = quantise(w, turned);
  CHECK(at::equal(sent.rows().values.view(at::kByte), expected.values.view(at::kByte)));
  CHECK(at::equal(sent.rows().scales, expected.scales));
  CHECK(at::equal(sent.columns().values.view(at::kByte), columns.values.view(at::kByte)));
  CHECK(at::equal(sent.columns().scales, columns.scales));
}

}  // namespace sent_test
