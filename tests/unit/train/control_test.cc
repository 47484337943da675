#include "train/control.h"

#include <capstan_catch.h>

#include <numeric>

namespace control_test {

using namespace capstan;

namespace {

constexpr int ranks = 3;

// What each rank gives to one step's sums.
struct Given {
  step::StepInput input;
  step::Requests requests;
  monitor::Values monitors;
  std::optional<double> collective_s;
};

// What each rank is told of each step. `speaks`: does it speak for its data coordinate?
std::vector<std::vector<train::StepTotals>> totals_of(std::vector<std::vector<Given>> steps,
                                                      const std::vector<bool>& speaks = {true, true, true}) {
  std::vector<std::vector<train::StepTotals>> told(ranks);
  comm::run_in_process(ranks, [&](comm::Communicator& communicator) {
    std::vector<int> all(ranks);
    std::iota(all.begin(), all.end(), 0);
    const auto rank = static_cast<std::size_t>(communicator.world().rank);
    train::Control control(communicator.group("world", all, c10::Device(c10::kCPU)), communicator, speaks[rank]);
    for (auto& step : steps) {
      const auto& mine = step.at(rank);
      control.start(mine.input, mine.requests, mine.monitors, mine.collective_s);
      if (!control.is_under_way()) throw std::logic_error("nothing is under way");
      told[rank].push_back(control.wait());
      if (control.is_under_way()) throw std::logic_error("it is still under way");
    }
  });
  return told;
}

Given returning(const monitor::Values& monitors) {
  Given given;
  given.monitors = monitors;
  return given;
}

Given measured(std::optional<double> seconds) {
  Given given;
  given.collective_s = seconds;
  return given;
}

}  // namespace

TEST_CASE("counts are those of the ranks that speak for a data coordinate; the wish of any rank is everybody's") {
  std::vector<Given> step(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto& input = step[rank].input;
    input.target_tokens = 10 + static_cast<std::int64_t>(rank);
    input.real_tokens = 20;
    input.padded_tokens = 30;
    input.samples = 4;
    input.without_target = 1;
    input.counts = {1.5};
    input.sources = {3, 4};
  }
  step[1].requests.hurry = true;
  step[2].requests.save = true;
  for (const auto& told : totals_of({step}, {true, false, true})) {
    const auto& totals = told.front();
    CHECK(totals.target_tokens == 22);
    CHECK(totals.real_tokens == 40);
    CHECK(totals.padded_tokens == 60);
    CHECK(totals.samples == 8);
    CHECK(totals.without_target == 2);
    CHECK(totals.objective == std::vector<double>{3});
    CHECK(totals.sources == std::vector<double>{6, 8});
    CHECK(totals.requests.hurry);
    CHECK(totals.requests.save);
    CHECK_FALSE(totals.requests.stop);
    CHECK_FALSE(totals.requests.time_is_up);
  }
}

TEST_CASE("a monitor's number is the mean over the ranks that returned it, and a new name is known in its first step") {
  const std::vector<Given> first{returning({{"a", 1}}), returning({{"b", 2}, {"a", 3}}), returning({})};
  const std::vector<Given> second{returning({}), returning({}), returning({{"c", 5}, {"a", 7}})};
  for (const auto& told : totals_of({first, second, first})) {
    CHECK(told[0].monitors == monitor::Values{{"a", 2}, {"b", 2}});
    CHECK(told[1].monitors == monitor::Values{{"a", 7}, {"c", 5}});
    CHECK(told[2].monitors == told[0].monitors);
  }
}

TEST_CASE("times in collectives are known by rank, or not at all where a rank has measured none") {
  const std::vector<Given> all{measured(0), measured(0.5), measured(2)};
  const std::vector<Given> one_lacks{measured(1), measured({}), measured(2)};
  for (const auto& told : totals_of({all, one_lacks, all})) {
    CHECK(told[0].collective_s == std::vector<double>{0, 0.5, 2});
    CHECK(told[1].collective_s.empty());
    CHECK(told[2].collective_s == told[0].collective_s);
  }
}

}  // namespace control_test
