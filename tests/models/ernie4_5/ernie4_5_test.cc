#include <capstan_catch.h>

#include "support/model.h"

namespace ernie4_5_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("ernie4_5: presets have the published model's parameters") {
  CHECK(parameters_of_presets("ernie4_5") == std::map<std::string, std::int64_t>{{"ernie4.5-0.3b", 360748032}});
}

TEST_CASE("ernie4_5: products have biases where they are asked for") {
  const auto biases = [](bool wanted) {
    std::int64_t count = 0;
    for (const auto& [name, shape] : files_of(*make_model("ernie4_5", tiny_with({{"use_bias", wanted}}))))
      count += name.ends_with(".bias") ? 1 : 0;
    return count;
  };
  CHECK(biases(false) == 0);
  CHECK(biases(true) == 7);
}

}  // namespace ernie4_5_test
