// Training: on several ranks as on one, and from checkpoints.
#include <ATen/ATen.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <cmath>

#include "plugins/optimizers/adam8bit/adam8bit.h"

namespace train_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

// Matrices of 4,096 elements and more. Of 64 rows each of 2 and of 4 ranks has whole blocks; 3 ranks cut blocks.
const std::string model =
    "[model]\nplugin = \"llama\"\nvocab_size = 256\nnum_layers = 2\nseq_length = 24\nhidden_size = 64\nnum_heads = 4\n"
    "num_kv_heads = 4\nff_dim = 96\n";
const std::string in_8_bits = "[optimizer]\nplugin = \"adam8bit\"\n";
constexpr std::int64_t saved_after = 7;
constexpr double tolerance = 1e-7;

Setting setting(int world, const std::string& optimizer = in_8_bits) {
  return {.world = world,
          .config = model + optimizer + (world > 1 ? "[strategy.fsdp]\n" : ""),
          .types = {type<optimizer::Rule, adam8bit::Adam8bit, adam8bit::Adam8bitOptions>("optimizer", "adam8bit")}};
}

// The largest difference of two runs' losses, as a part of the loss.
double apart(const TrainResult& a, const TrainResult& b) {
  REQUIRE(a.losses.size() == b.losses.size());
  double most = 0;
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    most = std::max(most, std::abs(a.losses[i] - b.losses[i]) / b.losses[i]);
  return most;
}

}  // namespace

TEST_CASE("adam8bit: learns what AdamW learns") {
  const auto mine = train(setting(1)), plain = train(setting(1, ""));
  CHECK(mine.losses.back() < 0.9 * mine.losses.front());
  CHECK(apart(mine, plain) < 0.05);
  CHECK(weight_distance(mine, plain) > 0);
}

TEST_CASE("adam8bit: ranks that have whole blocks learn what one rank learns") {
  const auto alone = train(setting(1));
  for (const int world : {2, 4}) {
    INFO(world << " ranks");
    CHECK(differences(train(setting(world)), alone, tolerance) == "");
  }
}

TEST_CASE("adam8bit: ranks that cut blocks have other scales, and learn nearly the same") {
  const auto alone = train(setting(1)), cut = train(setting(3));
  // An update is made before its moments become codes, so the first two steps have the same losses.
  for (std::size_t i : {0U, 1U}) CHECK(cut.losses[i] == Approx(alone.losses[i]).epsilon(tolerance));
  CHECK(apart(cut, alone) < 0.02);
}

TEST_CASE("adam8bit: a run that resumes on the same ranks has the same bits") {
  for (const int world : {1, 2, 3}) {
    INFO(world << " ranks");
    CHECK(differences(train_resumed(setting(world), saved_after, setting(world)), train(setting(world)), 0) == "");
  }
}

TEST_CASE("adam8bit: a run resumes on other ranks") {
  const auto alone = train(setting(1));
  const auto resumed = [](int before, int after) {
    return train_resumed(setting(before), saved_after, setting(after));
  };
  CHECK(differences(resumed(2, 4), alone, tolerance) == "");
  CHECK(differences(resumed(4, 1), alone, tolerance) == "");
  CHECK(apart(resumed(3, 2), alone) < 0.02);
  CHECK(apart(resumed(2, 3), alone) < 0.02);
}

TEST_CASE("adam8bit: offloaded and split, gradients are one rank's by name") {
  const auto alone = train(setting(1));
  auto offloaded = setting(1);
  offloaded.world = 2;
  offloaded.config += "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\n";
  CHECK(differences(train(offloaded), alone, tolerance) == "");  // whole blocks
  auto split = setting(1);
  split.world = 4;
  split.config += "[strategy.tensor_parallel]\nsize = 2\n[strategy.fsdp]\n";
  const auto cut = train(split);  // columns divide blocks: the same gradients at first, then nearly the same losses
  for (const auto& [name, gradient] : alone.gradients) {
    INFO(name);
    CHECK(at::allclose(cut.gradients.at(name), gradient, 1e-10, 1e-13));
  }
  CHECK(apart(cut, alone) < 0.02);
}

}  // namespace train_test
