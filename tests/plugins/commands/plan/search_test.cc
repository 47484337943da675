// How `plan` searches: what it tries, in which order, and what it puts first.
#include "plugins/commands/plan/search.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <algorithm>

namespace search_test {

using namespace capstan;
using planning::Choice;
using planning::LayoutChoice;
using planning::Tried;

namespace {

using By = plugin::Saving::By;

std::vector<LayoutChoice> layouts() {
  return planning::layouts_of({{{"", {}, {}}, {"recompute", {"r=1"}, By::recomputing}},
                               {{"", {}, {}}, {"shard", {"s=1"}, By::sharding}, {"offload", {"o=1"}, By::offloading}}});
}

bool has(const LayoutChoice& layout, const char* override_) {
  return std::find(layout.overrides.begin(), layout.overrides.end(), override_) != layout.overrides.end();
}

// A GPU of 100 bytes: states take 60 whole or 20 sharded, a row 20, or 8 when it is recomputed.
struct Imagined {
  std::int64_t room = 100;
  bool with_times = true;
  std::vector<std::string> tried = {};

  std::vector<Tried> search(std::int64_t global_batch) {
    return planning::search(layouts(), global_batch,
                            {[](const LayoutChoice&) { return std::optional<std::int64_t>(2); },
                             [&](const LayoutChoice& layout, const planning::BatchSizes& batch) {
                               tried.push_back(cat(layout.words, " ", batch.micro_batch));
                               return std::optional(of(layout, batch));
                             }});
  }

  plan::Estimate of(const LayoutChoice& layout, const planning::BatchSizes& batch) const {
    plan::Estimate made;
    const std::int64_t states = has(layout, "o=1") ? 10 : has(layout, "s=1") ? 20 : 60;
    made.gpu_bytes = states + batch.micro_batch * (has(layout, "r=1") ? 8 : 20);
    made.fits = made.gpu_bytes <= room;
    if (!with_times) return made;
    made.seconds = (has(layout, "r=1") ? 1.3 : 1.0) + 0.1 * static_cast<double>(batch.accumulation);
    if (has(layout, "o=1")) made.seconds += 5;
    return made;
  }
};

}  // namespace

TEST_CASE("a layout has one choice of each plugin") {
  const auto all = layouts();
  REQUIRE(all.size() == 6);
  CHECK(all[0].words.empty());
  CHECK(all[5].words == "recompute, offload");
  CHECK(all[5].overrides == std::vector<std::string>{"o=1", "r=1"});
  CHECK((all[5].recomputes && all[5].offloads && !all[4].offloads && all[4].recomputes));
}

TEST_CASE("the fastest that fits comes first, with the largest micro-batch that fits") {
  Imagined gpu;
  const auto found = gpu.search(16);  // 8 samples a rank
  REQUIRE(found.size() == 4);
  CHECK(found[0].layout.words == "shard");
  CHECK(found[0].batch.micro_batch == 4);
  CHECK(found[0].batch.accumulation == 2);
  CHECK(found[1].layout.words.empty());
  CHECK(found[1].batch.micro_batch == 2);
  CHECK(found[2].layout.words == "recompute, shard");
  CHECK(found[2].batch.micro_batch == 8);
  CHECK(std::all_of(found.begin(), found.end(), [](const auto& one) { return one.estimate.fits; }));
  // What fits without offloading is not offloaded.
  CHECK(std::none_of(gpu.tried.begin(), gpu.tried.end(),
                     [](const auto& one) { return one.find("offload") != std::string::npos; }));
}

TEST_CASE("recomputing is not tried where all samples fit at once") {
  Imagined gpu{1000};
  const auto found = gpu.search(4);
  CHECK(found.size() == 2);
  CHECK(gpu.tried == std::vector<std::string>{" 2", "shard 2"});
}

TEST_CASE("offloading is tried where nothing else fits") {
  Imagined gpu{25};
  const auto found = gpu.search(2);
  REQUIRE(!found.empty());
  CHECK(found[0].layout.words == "recompute, offload");
  CHECK(found[0].estimate.fits);
  CHECK(!found[1].estimate.fits);
}

TEST_CASE("without times the least memory comes first, and what does not fit comes last") {
  Imagined gpu{50, false};
  const auto found = gpu.search(2);
  REQUIRE(found.size() == 3);
  CHECK((found[0].estimate.fits && found[0].layout.words == "shard"));
  CHECK((!found[1].estimate.fits && !found[2].estimate.fits));
  CHECK(found[1].estimate.gpu_bytes < found[2].estimate.gpu_bytes);
}

namespace {

// Layouts that may also divide: by two pipelines, or by context. A pipeline's time has a bubble, which more
// micro-batches shorten.
std::vector<LayoutChoice> divided_layouts() {
  return planning::layouts_of(
      {{{"", {}, {}}, {"cp", {"c=2"}, By::sharding, true}},
       {{"", {}, {}}, {"pp2", {"p=2"}, By::sharding, true}, {"pp4", {"p=4"}, By::sharding, true}},
       {{"", {}, {}}, {"shard", {"s=1"}, By::sharding}, {"tp", {"t=1"}, By::sharding}}});
}

}  // namespace

TEST_CASE("what divides is tried with the best of the others, and from the best on by single changes") {
  const auto layouts = divided_layouts();
  REQUIRE(layouts.size() == 18);
  CHECK(layouts.back().words == "cp, pp4, tp");
  CHECK(layouts.back().divisions == 2);
  CHECK(layouts.back().undivided == std::vector<std::size_t>{0, 0, 2});
  std::vector<std::string> tried;
  const auto found = planning::search(
      layouts, 8,
      {[](const LayoutChoice& layout) { return std::optional<std::int64_t>(has(layout, "c=2") ? 1 : 2); },
       [&](const LayoutChoice& layout, const planning::BatchSizes& batch) {
         tried.push_back(cat(layout.words, " ", batch.micro_batch));
         plan::Estimate made;
         const int stages = has(layout, "p=4") ? 4 : has(layout, "p=2") ? 2 : 1;
         made.gpu_bytes = 80 / stages + (has(layout, "t=1") ? -10 : 0) + 4 * batch.micro_batch;
         made.fits = made.gpu_bytes <= 60;
         made.positions.resize(static_cast<std::size_t>(stages));
         made.seconds = (1 + (stages - 1.0) / static_cast<double>(batch.accumulation)) *
                        (has(layout, "t=1") ? 0.9 : 1) * (has(layout, "s=1") ? 1.1 : 1) *
                        (has(layout, "c=2") ? 1.2 : 1);
         return std::optional(made);
       }});
  REQUIRE(!found.empty());
  CHECK(found.front().layout.words == "pp2, tp");
  CHECK(found.front().batch.micro_batch == 1);
  CHECK(found.front().batch.accumulation == 4);
  const auto count = [&](const char* text) { return std::count(tried.begin(), tried.end(), text); };
  CHECK(count("pp2 1") == 1);
  CHECK(count("pp2 2") == 1);  // slower: more of the time is the bubble
  CHECK(count("pp2 4") == 0);
  CHECK(count("cp, pp2, tp 1") == 1);  // a neighbour of the best
  CHECK(count("cp, pp4, shard 1") == 0);
}

TEST_CASE("strategies that the configuration has can stay, go, or be as a saving says") {
  plugin::Host host(std::vector<std::filesystem::path>{});
  const std::map<std::string, bool> in_file{{"fsdp", true}, {"recompute", false}};
  std::vector<std::string> words;
  std::vector<std::vector<std::string>> overrides;
  for (const auto& of_one : planning::choices_of(host, in_file)) {
    for (const auto& choice : of_one) {
      words.push_back(choice.words);
      overrides.push_back(choice.overrides);
    }
  }
  const auto at = [&](const std::string& text) {
    const auto found = std::find(words.begin(), words.end(), text);
    REQUIRE(found != words.end());
    return overrides[static_cast<std::size_t>(found - words.begin())];
  };
  CHECK(at("fsdp as configured").empty());
  CHECK(at("fsdp mode=full_shard") == std::vector<std::string>{"strategy.fsdp.mode=full_shard"});
  CHECK(at("zero stage=1") == std::vector<std::string>{"strategy.zero.stage=1"});
  CHECK(at("context_parallel size=2") == std::vector<std::string>{"strategy.context_parallel.size=2"});
  CHECK(
      at("pipeline_parallel schedule=zero_bubble size=4") ==
      std::vector<std::string>{"strategy.pipeline_parallel.schedule=zero_bubble", "strategy.pipeline_parallel.size=4"});
  CHECK(at("tensor_parallel size=2") == std::vector<std::string>{"strategy.tensor_parallel.size=2"});
  CHECK(at("recompute every=1 regions=[]") == std::vector<std::string>{"strategy.recompute.enabled=true",
                                                                       "strategy.recompute.every=1",
                                                                       "strategy.recompute.regions=[]"});
  CHECK(std::count(overrides.begin(), overrides.end(), std::vector<std::string>{"strategy.fsdp.enabled=false"}) == 1);
}

}  // namespace search_test
