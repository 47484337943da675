#include "config/nearest_choice.h"

#include <capstan_catch.h>

namespace nearest_choice_test {

using namespace capstan::config;

TEST_CASE("a choice in another program's words") {
  const std::vector<std::string> modes{"full_shard", "shard_grad_op", "no_shard"}, when{"pre", "post", "none"},
      precision{"fp32", "bf16", "fp16", "bf16_pure"};
  CHECK(nearest_choice("FULL_SHARD", modes) == "full_shard");
  CHECK(nearest_choice("ShardingStrategy.SHARD_GRAD_OP", modes) == "shard_grad_op");
  CHECK(nearest_choice("full", modes) == "full_shard");
  CHECK(nearest_choice("full_shrad", modes) == "full_shard");
  CHECK(nearest_choice("backward_post", when) == "post");
  CHECK(nearest_choice("bf16-mixed", precision) == "bf16");
  CHECK(nearest_choice("bf16-pure-mixed", precision) == "bf16_pure");
  CHECK(nearest_choice("shard", {"shard_a", "shard_b"}) == "");  // which of the two?
  CHECK(nearest_choice("amp", precision) == "");
  CHECK(nearest_choice("", precision) == "");
}

}  // namespace nearest_choice_test
