#include "monitor/memory_text.h"

#include <capstan_catch.h>

namespace memory_text_test {

using namespace capstan;

namespace {

constexpr std::int64_t gib = 1LL << 30;

}  // namespace

TEST_CASE("a GPU's parts stand beside what was predicted of them, and host memory is left out") {
  const auto text = monitor::memory_text({{"parameters", false, 4 * gib},
                                          {"activations and gradients at work", false, 10 * gib},
                                          {"offloaded optimizer state", true, 99 * gib}},
                                         {{"parameters", false, 3 * gib},
                                          {"parameters", false, gib},
                                          {"tables", false, 2 * gib},
                                          {"offloaded optimizer state", true, 99 * gib}},
                                         13 * gib);
  CHECK(text ==
        "part                               predicted  held\n"
        "parameters                         4.00 GiB   4.00 GiB\n"
        "activations and gradients at work  10.00 GiB\n"
        "tables                                        2.00 GiB\n"
        "all tensors at once                14.00 GiB  at most 13.00 GiB\n");
}

TEST_CASE("what runs out while the model is loaded is held against the prediction too") {
  const auto text = monitor::memory_text({{"parameters", false, 4 * gib}}, {}, gib);
  CHECK_THAT(text, Contains("parameters           4.00 GiB") && Contains("at most 1.00 GiB"));
}

}  // namespace memory_text_test
