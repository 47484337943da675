#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "train/expert_load.h"

using namespace capstan;

TEST_CASE("what experts computed: over layers by expert, and the busiest against its layer's mean") {
  monitor::Values values{{"before", 1.0}};
  train::add_expert_load(values, at::tensor({4.0, 0.0, 2.0, 1.0, 3.0, 2.0}, at::kDouble), 2);
  const monitor::Values expected{{"before", 1.0},
                                 {"expert_tokens_0", 5.0},
                                 {"expert_tokens_1", 3.0},
                                 {"expert_tokens_2", 4.0},
                                 {"expert_load_max", 2.0}};
  CHECK(values == expected);
  monitor::Values even;
  train::add_expert_load(even, at::full({8}, 6.0, at::kDouble), 2);
  CHECK(even.back().second == 1.0);
  monitor::Values nothing;
  train::add_expert_load(nothing, at::zeros({4}, at::kDouble), 1);
  CHECK(nothing.back().second == 0.0);
  monitor::Values dense;
  train::add_expert_load(dense, at::empty({0}, at::kDouble), 0);
  CHECK(dense.empty());
}
