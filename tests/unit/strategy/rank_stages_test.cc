#include "strategy/rank_stages.h"

#include <capstan_catch.h>

#include "strategy/tiny_units.h"

namespace rank_stages_test {

using namespace capstan;
using namespace capstan::testing;
using strategy::RankStages;
using strategy::Stages;

namespace {

const auto any_program = [](int, int micros) { return strategy::accumulation(1, micros); };

TinyChain chain_of(const std::vector<bool>& trainable) {
  TinyChain chain;
  for (const bool is_trained : trainable)
    chain.push_back(std::make_unique<TinyLayer>("layer", is_trained, TinyLayer::Sizes{}, 0));
  return chain;
}

}  // namespace

TEST_CASE("a cut that does not fit the model or the mesh is refused with what is wrong") {
  CHECK(strategy::fault_of({{0, 2}, {0, 1}, any_program}, 3, 2).empty());
  CHECK(strategy::fault_of({{0, 2}, {0}, any_program}, 3, 2) == "there are not as many positions as stages");
  CHECK(strategy::fault_of({{1, 2}, {0, 1}, any_program}, 3, 2) ==
        "the first stage does not begin at the model's first unit");
  CHECK(strategy::fault_of({{0, 3}, {0, 1}, any_program}, 3, 2) == "they do not divide the model's 3 units in order");
  CHECK(strategy::fault_of({{0, 0}, {0, 1}, any_program}, 3, 2) == "they do not divide the model's 3 units in order");
  CHECK(strategy::fault_of({{0, 1}, {0, 0}, any_program}, 3, 2) == "they are not spread over all 2 positions of pp");
  CHECK(strategy::fault_of({{0, 1}, {0, 2}, any_program}, 3, 2) == "they are not spread over all 2 positions of pp");
  CHECK(strategy::fault_of({{0, 1}, {0, 1}, {}}, 3, 2) == "there is no program");
}

TEST_CASE("a rank's stages: its units, their places in the model, its neighbours, and how far backward goes") {
  const auto chain = chain_of({false, false, true, false, true});
  const Stages stages{{0, 1, 3}, {0, 1, 0}, any_program};
  const auto ends = RankStages::of(stages, 0, pointers(chain));
  REQUIRE(ends.stages.size() == 2);
  CHECK_FALSE(ends.is_whole());
  CHECK(ends.has_end());
  CHECK(ends.place_of(0) == 0);
  CHECK(ends.place_of(1) == 3);
  CHECK(ends.place_of(2) == 4);
  CHECK(ends.of_unit(2) == 1);
  CHECK(ends.index_of(2) == 1);
  CHECK(ends.stages[0].before == -1);
  CHECK(ends.stages[0].after == 1);
  CHECK(ends.stages[1].before == 1);
  CHECK(ends.stages[1].after == -1);
  CHECK(ends.first_reached == 1);  // the frozen unit 3 is reached: what is trained comes before it
  const auto middle = RankStages::of(stages, 1, pointers(chain));
  CHECK(middle.first_reached == 1);
  CHECK_FALSE(middle.has_end());
  CHECK(RankStages::whole(pointers(chain)).is_whole());
  CHECK(RankStages::whole(pointers(chain)).first_reached == 2);
}

}  // namespace rank_stages_test
