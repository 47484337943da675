#include <capstan/base/text.h>
#include <capstan/monitor_parts/chosen.h>
#include <capstan_catch.h>

namespace chosen_test {

using namespace capstan;
using namespace capstan::monitor;

namespace {

std::string faults(const ChosenNumbers& chosen, std::int64_t count, const std::string& thing) {
  Diagnostics diagnostics;
  check_chosen(chosen, count, thing, diagnostics);
  std::vector<std::string> texts;
  for (const auto& diagnostic : diagnostics.list()) texts.push_back(diagnostic.text());
  return join(texts, "\n");
}

}  // namespace

TEST_CASE("steps and ranks that a run will not have are named with those that it has") {
  CHECK(faults({"monitor.trace.steps", "a.toml:3", false, {3, 999}}, 20, "step") ==
        "a.toml:3: monitor.trace.steps names step 999, but the run has 20 steps\n    fix: name steps from 0 to 19");
  CHECK(faults({"monitor.trace.ranks", "a.toml:4", false, {7, 8}}, 1, "rank") ==
        "a.toml:4: monitor.trace.ranks names ranks 7, 8, but the run has 1 rank\n    fix: name only rank 0, or start "
        "more: -n of run and of check");
  CHECK(faults({"monitor.trace.steps", "a.toml:3", false, {0, 19}}, 20, "step").empty());
  CHECK(faults({"monitor.trace.steps", "a.toml:3", false, {}}, 20, "step").empty());
}

TEST_CASE("where the number of steps is not known, negative ones are refused") {
  CHECK(faults({"monitor.trace.steps", "a.toml:3", false, {1000000}}, 0, "step").empty());
  CHECK(faults({"monitor.trace.steps", "a.toml:3", false, {-1}}, 0, "step") ==
        "a.toml:3: monitor.trace.steps names step -1\n    fix: name steps from 0 on");
}

TEST_CASE("one existing step of a default suffices") {
  CHECK(faults({"monitor.trace.steps", "default", true, {3, 4}}, 4, "step").empty());
  CHECK_THAT(faults({"monitor.trace.steps", "default", true, {3, 4}}, 2, "step"), Contains("names steps 3, 4"));
}

}  // namespace chosen_test
