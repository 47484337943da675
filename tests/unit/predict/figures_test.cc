#include "step_time/figures.h"

#include <capstan_catch.h>

namespace figures_test {

using namespace capstan;

TEST_CASE("a GPU whose rates were not measured is derived, and says of what; others have no figures") {
  for (const auto* name : {"h100-80g", "a100-80g", "a100-40g"}) {
    const auto figures = plan::figures_of(name);
    REQUIRE(figures);
    CHECK(figures->is_derived);
    CHECK_THAT(figures->source, Contains("this GPU") && Contains("data sheets"));
  }
  CHECK(!plan::figures_of("h200-141g")->is_derived);
  CHECK(!plan::figures_of("v100-32g"));
  CHECK(!plan::figures_of("80GiB"));
  const auto h100 = *plan::figures_of("h100-80g"), h200 = *plan::figures_of("h200-141g");
  CHECK(h100.product_flops == h200.product_flops);
  CHECK(h100.bytes_per_second == Approx(h200.bytes_per_second * 3.35 / 4.8).epsilon(0.01));
}

}  // namespace figures_test
