// Each row of attention's table on a GPU against the definition in float64.
#include "support/attention_rows.h"

namespace attention_rows_test {

using namespace capstan;

TEST_CASE("GPU: each row of attention's table gives what the definition says, and the same gradients by name",
          "[products]") {
  const auto taken = testing::check_attention_rows(at::Device(at::kCUDA, 0));
  for (const char* name :
       {"segments", "sinks of segments", "SDPA", "blocks of a window", "masked SDPA", "decode", "plain"}) {
    INFO(name);
    CHECK(taken.count(name) == 1);
  }
}

}  // namespace attention_rows_test
