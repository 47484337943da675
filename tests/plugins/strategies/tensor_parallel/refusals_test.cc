// What cannot be split is refused in words before anything is allocated.
#include <capstan/base/log.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <fstream>
#include <sstream>

#include "support/families.h"
#include "support/folder.h"

using namespace capstan;
using capstan::testing::families;
using Catch::Matchers::Contains;

namespace {

std::string error_of(const std::string& config, int world = 4) {
  try {
    testing::train({.world = world, .config = config, .steps = 1});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string model(const std::string& plugin, const std::string& options) {
  return testing::family_config({plugin, options});
}

std::string tensor(int size, const std::string& more = "") {
  return "[strategy.tensor_parallel]\nsize = " + std::to_string(size) + "\n" + more;
}

const std::string three_heads = "hidden_size = 12\nnum_heads = 3\nff_dim = 22\n";

class Rival : public strategy::Strategy {
 public:
  struct RivalOptions {
    static void describe(config::OptionTable<RivalOptions>&) {}
  };
  explicit Rival(const config::Options<RivalOptions>&) {}
  void claim(strategy::Claims& claims) const override { claims.exclusive("axis tp"); }
};

}  // namespace

TEST_CASE("a size is needed, and must divide the world") {
  CHECK_THAT(error_of("[strategy.tensor_parallel]\n"), Contains("strategy.tensor_parallel.size"));
  CHECK_THAT(error_of(tensor(0)), Contains("size"));
  CHECK_THAT(error_of(model("gpt", three_heads) + tensor(3)), Contains("world 4 is no multiple of tp 3 = 3"));
}

TEST_CASE("heads that do not divide are refused with the sizes that do") {
  CHECK_THAT(
      error_of(model("gpt", three_heads) + tensor(2)),
      Contains("strategy.tensor_parallel.size is 2, but the model's 3 attention heads are not divisible by it") &&
          Contains("use one of 1, 3"));
  CHECK_THAT(error_of(model("llama", "hidden_size = 24\nnum_heads = 12\nnum_kv_heads = 3\nff_dim = 16\n") + tensor(2)),
             Contains("the model's 3 key and value heads can neither be divided by it nor each be held by as many") &&
                 Contains("use one of 1, 3, 6, 12"));
}

TEST_CASE("sizes that leave a rank nothing are refused") {
  CHECK_THAT(error_of("[model]\nplugin = \"gpt\"\nvocab_size = 33\nnum_layers = 1\nseq_length = 24\nhidden_size = "
                      "64\nnum_heads = 32\n" +
                          tensor(32),
                      32),
             Contains("which leaves some ranks none of the vocabulary's 33 words") &&
                 Contains("use a smaller size, or set vocab_parallel = false"));
  CHECK_THAT(error_of(model("gpt", "hidden_size = 16\nnum_heads = 4\nff_dim = 5\n") + tensor(4)),
             Contains("which leaves some ranks none of the 5 in h.0.mlp.c_fc.weight [5, 16]"));
}

TEST_CASE("an option without effect is refused") {
  CHECK_THAT(error_of(model("gpt", three_heads) + tensor(1, "sequence_parallel = true\n")),
             Contains("strategy.tensor_parallel.sequence_parallel has no effect with size = 1"));
}

TEST_CASE("a model whose layers don't declare what they use is refused") {
  CHECK_THAT(error_of(tensor(3), 3),
             Contains("unit head uses tokens.weight, which is split, in a layer that does not declare how it may be "
                      "split") &&
                 Contains("set strategy.tensor_parallel.vocab_parallel = false"));
}

TEST_CASE("without its vocabulary that model can be split") {
  const auto split = testing::train({.world = 3, .config = tensor(3, "vocab_parallel = false\n"), .steps = 3});
  CHECK(testing::differences(split, testing::train({.steps = 3}), 1e-10) == "");
}

TEST_CASE("the axis has one owner") {
  std::string error;
  try {
    testing::train({.world = 2,
                    .config = model("gpt", families().front().options) + tensor(2) + "[strategy.rival]\n",
                    .steps = 1,
                    .types = {testing::type<strategy::Strategy, Rival, Rival::RivalOptions>("strategy", "rival")}});
  } catch (const Error& caught) {
    error = caught.what();
  }
  CHECK_THAT(error, Contains("axis tp") && Contains("rival") && Contains("tensor_parallel"));
}
