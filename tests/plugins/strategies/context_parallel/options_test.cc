// What context_parallel refuses, and what `check` predicts of it.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "plugins/strategies/context_parallel/cases.h"

namespace options_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

std::string error_of(const std::string& config, int world) {
  try {
    auto setting = context_setting(config, world);
    setting.overrides = {"train.global_batch=24"};
    setting.steps = 1;
    train(setting);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

const std::string llama = family_config(families()[2]);

}  // namespace

TEST_CASE("heads that ranks cannot divide are refused where they were asked for, and gathered otherwise") {
  CHECK_THAT(error_of(llama + context_on(3, "ulysses"), 3),
             Contains("strategy.context_parallel.size is 3, which does not divide the 4 attention heads") &&
                 Contains("method = \"gather\""));
  CHECK_THAT(error_of(llama + context_on(4, "ulysses") + "[strategy.tensor_parallel]\nsize = 2\n", 8),
             Contains("the 2 attention heads and 1 key head that tensor parallelism leaves a rank"));
  CHECK(error_of(llama + context_on(3), 3).empty());
}

TEST_CASE("sizes that do not make up the world are refused with the arithmetic") {
  CHECK_THAT(error_of(llama + context_on(4), 6), Contains("world 6 is no multiple of cp 4"));
  CHECK_THAT(error_of(llama + context_on(0), 2), Contains("strategy.context_parallel.size is 0"));
}

TEST_CASE("more ranks than the model's rows can have columns are refused") {
  const auto short_rows = family_config(families()[2], 3);
  CHECK_THAT(error_of(short_rows + context_on(4), 4),
             Contains("strategy.context_parallel.size is 4, and the model's rows have at most 3 columns") &&
                 Contains("use a size of at most 3"));
  CHECK(error_of(short_rows + context_on(3), 3).empty());
}

TEST_CASE("a model whose tokens see each other in layers of its own is refused") {
  CHECK_THAT(error_of(context_on(2), 2), Contains("none of its layers is an nn::Attention"));
}

}  // namespace options_test
