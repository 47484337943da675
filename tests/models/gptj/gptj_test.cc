#include <capstan_catch.h>

#include "support/model.h"

namespace gptj_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

ModelOptions tiny_gptj(const ModelOptions& more) {
  ModelOptions options{
      {"vocab_size", std::int64_t{64}}, {"hidden_size", std::int64_t{16}}, {"num_heads", std::int64_t{2}}};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

}  // namespace

TEST_CASE("gptj: the preset has the published model's parameters") {
  CHECK(parameters_of_presets("gptj") == std::map<std::string, std::int64_t>{{"gpt-j-6b", 6050882784}});
}

TEST_CASE("gptj: the part of a head that turns is even and no larger than the head") {
  for (const std::int64_t dim : {5, 10}) {
    CHECK_THAT(model_faults("gptj", tiny_gptj({{"rotary_dim", dim}})).front(),
               Contains("use an even number of at most 8"));
  }
  CHECK(model_faults("gptj", tiny_gptj({{"rotary_dim", std::int64_t{8}}})).empty());
}

}  // namespace gptj_test
