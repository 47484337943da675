// Steps of many ranks that are not as fast as each other.
#include "plugins/commands/plan/stragglers.h"

#include <capstan_catch.h>

#include <cmath>

namespace stragglers_test {

using namespace capstan;
using planning::Disturbances;
using planning::simulate;
using Kind = strategy::Action::Kind;

namespace {

// Two positions on pp, one forward one backward, two micro-batches: a forward computes 1 s, a backward 2, a message
// travels 0.25. What follows the programs takes 0.5 s.
plan::Estimate pipeline() {
  plan::Estimate estimate;
  plan::PositionTime first, second;
  first.program = {{Kind::forward, 0, 0},           {Kind::send_states, 0, 0},       {Kind::forward, 0, 1},
                   {Kind::send_states, 0, 1},       {Kind::receive_gradients, 0, 0}, {Kind::backward, 0, 0},
                   {Kind::receive_gradients, 0, 1}, {Kind::backward, 0, 1}};
  first.actions = {{{Kind::forward, 0, 0}, 1, 0}, {{Kind::backward, 0, 0}, 2, 0}, {{Kind::send_states, 0, 0}, 0, 0.25}};
  second.program = {{Kind::receive_states, 1, 0}, {Kind::forward, 1, 0},        {Kind::backward, 1, 0},
                    {Kind::send_gradients, 1, 0}, {Kind::receive_states, 1, 1}, {Kind::forward, 1, 1},
                    {Kind::backward, 1, 1},       {Kind::send_gradients, 1, 1}};
  second.actions = {
      {{Kind::forward, 1, 0}, 1, 0}, {{Kind::backward, 1, 0}, 2, 0}, {{Kind::send_gradients, 1, 0}, 0, 0.25}};
  first.seconds = second.seconds = 6.5;
  first.moving = second.moving = 3;
  estimate.positions = {first, second};
  return estimate;
}
constexpr double even = 1 + 0.25 + 6 + 0.25 + 2 + 0.5;

// One position: two micro-batches, which compute 2 s each, and 1 s more. Ranks that compute them together wait 1 s for
// each other in each.
plan::Estimate whole(int split_ranks, int gather_ranks) {
  plan::Estimate estimate;
  plan::PositionTime one;
  one.program = {{Kind::forward, 0, 0}, {Kind::forward, 0, 1}};
  one.actions = {{{Kind::forward, 0, 0}, 2, split_ranks > 1 ? 1.0 : 0.0}};
  one.seconds = 2 * (split_ranks > 1 ? 3 : 2) + 1;
  one.moving = 3;
  estimate.positions = {one};
  estimate.split_ranks = split_ranks;
  estimate.gather_ranks = gather_ranks;
  return estimate;
}

}  // namespace

TEST_CASE("undisturbed ranks take the predicted step, however many there are") {
  for (const int gpus : {2, 8, 1024}) CHECK(simulate(pipeline(), gpus, {}).seconds == Approx(even));
  CHECK(simulate(whole(1, 1), 16384, {}).seconds == Approx(5));
  const auto step = simulate(pipeline(), 8, {});
  CHECK(step.waiting == Approx(1 - 6.5 / even));
  CHECK(step.stuck.empty());
}

TEST_CASE("a slow GPU delays its pipeline, and the sum of gradients all others") {
  Disturbances slow;
  slow.slow_gpus[5] = 1.5;  // of 8 ranks, 4 to 7 are the second position
  // The second position then takes 9 s for its two micro-batches.
  CHECK(simulate(pipeline(), 8, slow).seconds == Approx(even + 3));
  // On the first position the first forward and the last backward are on the way, and the others are hidden.
  CHECK(simulate(pipeline(), 8, {{{0, 1.5}}}).seconds == Approx(even + 0.5 + 1));
  CHECK(simulate(whole(1, 1), 8, {{{3, 2}}}).seconds == Approx(5 + 4));
  // What a rank waits for in its layers takes no longer because another one computes longer: the group does both.
  CHECK(simulate(whole(4, 1), 8, {{{3, 2}}}).seconds == Approx(7 + 4));
  // The slowest counts, not their sum.
  CHECK(simulate(whole(1, 1), 8, {{{3, 2}, {4, 1.5}}}).seconds == Approx(5 + 4));
}

TEST_CASE("a slow link delays what is sent over it, and sums of gradients as far as nothing hides them") {
  Disturbances slow;
  slow.slow_links[1] = 3;  // the first position of the second replica
  // Both messages on the way there and back take 0.5 s more; sums take 9 s, and 6 are hidden.
  CHECK(simulate(pipeline(), 4, slow).seconds == Approx(even + 2 * 0.5 + 3));
  CHECK(simulate(whole(1, 1), 4, slow).seconds == Approx(5 + (9 - 4)));
  // Layers' collectives of the four ranks that compute together: 2 x 1 s take 6. Sums: 9 s, and 6 are hidden.
  CHECK(simulate(whole(4, 1), 8, slow).seconds == Approx(7 + 4 + 3));
}

TEST_CASE("a lost link stops what needs it, and the step never ends") {
  Disturbances lost;
  lost.lost_links = {5};
  const auto step = simulate(pipeline(), 8, lost);
  CHECK(std::isinf(step.seconds));
  CHECK(step.last_end == Approx(even - 0.5));  // the other three pipelines
  REQUIRE(step.stuck.size() == 2);
  CHECK(step.stuck[0].first_rank == 1);
  CHECK(step.stuck[0].action == "receive gradients of micro-batch 0 in stage 0");
  CHECK(step.stuck[0].since == Approx(2));
  CHECK(step.stuck[1].first_rank == 5);
  CHECK(step.stuck[1].action == "receive states of micro-batch 0 in stage 1");
  CHECK(step.stuck[1].since == 0);
  const auto text = planning::simulation_text(pipeline(), 8, lost);
  CHECK_THAT(text, Contains("the step does not end") && Contains("receive gradients of micro-batch 0 in stage 0") &&
                       Contains("the other 6 ranks: wait from 9500.0 ms on"));
  // Whoever gathers parameters from it, or computes with it, does not even begin.
  for (const auto& estimate : {whole(1, 4), whole(4, 1)}) {
    const auto stopped = simulate(estimate, 8, lost);
    REQUIRE(stopped.stuck.size() == 1);
    CHECK(stopped.stuck[0].first_rank == 4);
    CHECK(stopped.stuck[0].ranks == 4);
  }
  // Otherwise all compute to the end.
  const auto late = simulate(whole(1, 1), 8, lost);
  CHECK(std::isinf(late.seconds));
  CHECK(late.stuck.empty());
  CHECK_THAT(planning::simulation_text(whole(1, 1), 8, lost), Contains("the other 8 ranks: wait from 4000.0 ms on"));
}

TEST_CASE("jitter is drawn by the seed, and more ranks that wait for each other are slower") {
  Disturbances jitter;
  jitter.jitter = 0.2;
  const auto seconds = [&](int gpus, std::uint64_t seed, int gathers) {
    jitter.seed = seed;
    return simulate(whole(1, gathers), gpus, jitter).seconds;
  };
  CHECK(seconds(8, 1, 1) == seconds(8, 1, 1));
  CHECK(seconds(8, 1, 1) != seconds(8, 2, 1));
  // Nearly the largest of many draws, in each micro-batch where ranks gather, in their sum otherwise.
  CHECK(seconds(1024, 1, 1024) == Approx(5 + 4 * 0.2).epsilon(0.002));
  CHECK(seconds(1024, 1, 1) < seconds(1024, 1, 1024));
  CHECK(seconds(2, 1, 1) < seconds(1024, 1, 1));
  CHECK(seconds(2, 1, 1) > 5);
  // A slow GPU jitters too.
  jitter.slow_gpus[0] = 2;
  CHECK(seconds(2, 1, 1) > 9);
  CHECK(seconds(2, 1, 1) < 5 + 4 + 8 * 0.2);
}

TEST_CASE("what cannot be simulated is refused") {
  std::map<int, double> factors;
  planning::read_factor("17=1.3", "--slow-gpu", factors);
  CHECK(factors == std::map<int, double>{{17, 1.3}});
  for (const auto* text : {"17", "17=", "=2", "17=0.5", "17=2x", "a=2", "17=nan", ""}) {
    INFO(text);
    CHECK_THROWS_WITH(planning::read_factor(text, "--slow-gpu", factors), Contains("--slow-gpu 17=1.3"));
  }
  CHECK_THROWS_WITH(planning::read_factor("17=2", "--slow-gpu", factors), Contains("names rank 17 twice"));
  Disturbances far;
  far.slow_links[8] = 2;
  CHECK_THROWS_WITH(simulate(pipeline(), 8, far), Contains("rank 8 is not one of 8 GPUs"));
}

}  // namespace stragglers_test
