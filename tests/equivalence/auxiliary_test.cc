// The auxiliary loss is reported next to the loss of tokens: what the gradients were taken of, on any number of ranks.
#include <capstan_catch.h>
#include <capstan_places.h>

#include "checkpoint/scratch.h"
#include "support/small_run.h"

namespace auxiliary_test {

using namespace capstan;

namespace {

struct Reported {
  double auxiliary = 0;
  bool has = false;
};

// 12 questions, 3 in a micro-batch, whose routers' loss is over the micro-batch.
Reported reported(int world, int accumulation, const std::string& model) {
  at::set_num_threads(1);
  const Scratch scratch;
  const auto file = scratch.write(
      "a.toml", "[run]\nseed = 3\ndevice = \"cpu\"\n[model]\n" + model +
                    "vocab_size = 261\nnum_layers = 2\nseq_length = 130\nhidden_size = 12\nnum_heads = 3\nff_dim = 10\n"
                    "[data]\nplugin = \"squad\"\ntrain = \"" CAPSTAN_SOURCE_DIR
                    "/configs/data/mini_squad_train.json\"\nmax_length = 97\n"
                    "[train]\nmax_steps = 1\nglobal_batch = 12\nprecision = \"fp64\"\naccumulation = " +
                    std::to_string(accumulation) + "\n");
  Reported out;
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    const auto job = testing::prepare_small(file, {}, world, communicator.world().rank);
    auto session = step::materialise(job, communicator);
    step::Feed feed(job);
    const auto input = feed.draw(0);
    auto numbers = step::Step(session).run(input, {500.0}, 0.1);
    numbers.read();
    const auto loss = numbers.auxiliary_loss();
    if (job.topology.rank == 0) out = {loss.value_or(0), loss.has_value()};
  });
  return out;
}

std::string mixtral(const std::string& coefficient) {
  return "plugin = \"mixtral\"\nnum_experts = 3\nrouter_aux_loss = true\nrouter_aux_loss_coef = " + coefficient + "\n";
}

}  // namespace

TEST_CASE("the auxiliary loss is the mean over micro-batches, times its coefficient") {
  const auto one = reported(1, 4, mixtral("0.5"));
  CHECK(one.has);
  // An even load gives experts_per_token = 2, times the coefficient; no load gives less.
  CHECK(one.auxiliary >= 1.0);
  CHECK(one.auxiliary < 1.5);
  CHECK(reported(1, 4, mixtral("0.25")).auxiliary == Approx(one.auxiliary / 2).epsilon(1e-14));
  // The same micro-steps on any number of ranks.
  CHECK(reported(2, 2, mixtral("0.5")).auxiliary == Approx(reported(1, 2, mixtral("0.5")).auxiliary).epsilon(1e-12));
  CHECK(reported(4, 1, mixtral("0.5")).auxiliary == Approx(reported(1, 1, mixtral("0.5")).auxiliary).epsilon(1e-12));
  const auto none = reported(1, 4, "plugin = \"gpt\"\ndropout = 0.0\n");
  CHECK_FALSE(none.has);
  CHECK(none.auxiliary == 0);
}

}  // namespace auxiliary_test
