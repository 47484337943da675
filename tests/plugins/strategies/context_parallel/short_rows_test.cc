// Rows with fewer columns than ranks share, and micro-batches of empty places only: what is learnt is what one rank
// learns.
#include <capstan_catch.h>

#include <utility>

#include "plugins/strategies/context_parallel/cases.h"
#include "support/compositions.h"

namespace short_rows_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

// Rows of two columns; and an epoch whose second batch has one sample for 24 places.
const std::vector<std::string> short_rows{"data.length=3", "train.pad_to_multiple=1"};
const std::vector<std::string> empty_places{"data.samples=25", "train.pad_to_multiple=1"};

struct Split {
  std::string strategies;
  int world;
  bool packs = false;
};

void check(const std::string& config, const std::vector<std::string>& data, const std::vector<Split>& splits) {
  const auto run = [&](const Split& split) {
    auto setting = context_setting(config + split.strategies, split.world);
    setting.overrides.insert(setting.overrides.end(), data.begin(), data.end());
    if (split.packs) setting.overrides.emplace_back("data.packing=true");
    return train(setting);
  };
  const auto one = run({"", 1});
  for (const auto& split : splits) {
    INFO(config << split.strategies << data.front() << ", " << split.world << " ranks, packed: " << split.packs);
    CHECK(differences(run(split), one, context_tolerance) == "");
  }
}

// Without dropout on attention's probabilities, which a ring has not.
std::string plain(Family family) {
  const std::string dropout = "attention_dropout = 0.1\n";
  const auto at = family.options.find(dropout);
  if (at != std::string::npos) family.options.erase(at, dropout.size());
  return family_config(family);
}

const std::string tp = "[strategy.tensor_parallel]\nsize = 2\n", fsdp = "[strategy.fsdp]\n";
const std::string again = "[strategy.recompute]\n";

}  // namespace

TEST_CASE("float64: every method on rows with fewer columns than ranks, packed or not", "[matrix]") {
  std::vector<Split> splits;
  for (const auto* method : {"ulysses", "gather", "ring"}) {
    splits.push_back({context_on(4, method), 4});
    splits.push_back({context_on(4, method), 4, true});
    splits.push_back({context_on(2, method), 4, true});
  }
  // Each split with each family, and with data of both kinds.
  std::size_t next = 0;
  for (const auto& family : {families()[1], dense(), mixture()}) {
    std::vector<Split> of_short, of_empty;
    for (const auto& split : splits) (next++ % 2 == 0 ? of_short : of_empty).push_back(split);
    check(plain(family), short_rows, of_short);
    check(plain(family), empty_places, of_empty);
    check(family_config(family), short_rows, {{context_on(4, "gather"), 4}});  // with dropout in attention
  }
}

TEST_CASE("float64: every method, family and kind of rows with fewer columns than ranks", "[.][full][matrix]") {
  for (const auto& family : {families()[1], dense(), mixture()}) {
    for (const auto* method : {"ulysses", "gather", "ring"}) {
      const std::vector<Split> splits{
          {context_on(4, method), 4}, {context_on(4, method), 4, true}, {context_on(2, method), 4, true}};
      check(plain(family), short_rows, splits);
      check(plain(family), empty_places, splits);
    }
  }
}

TEST_CASE("float64: data ranks of empty places only, with splits, shards, stages, adapters and recompute", "[matrix]") {
  const std::string pp = "[strategy.pipeline_parallel]\nsize = 2\n", ep = "[strategy.expert_parallel]\nsize = 2\n";
  const std::string sp = tp + "sequence_parallel = true\n";
  check(family_config(dense()), empty_places,
        {{context_on(2) + fsdp, 8}, {context_on(2, "gather") + sp + again, 4}, {context_on(2) + pp, 4, true}});
  check(family_config(dense()) + adapters_of(dense()), empty_places, {{context_on(4) + fsdp, 8, true}});
  check(family_config(mixture()), empty_places, {{context_on(2) + ep + again, 4}, {context_on(2) + sp, 4}});
}

TEST_CASE("float64: pairs whose rows have fewer columns than ranks", "[matrix]") {
  const std::string pairs = "[data]\nsequences = 2\n[objective]\nplugin = \"dpo\"\nreference = \"start\"\n";
  for (const auto& data : {short_rows, empty_places})
    check(family_config(dense()) + pairs, data, {{context_on(4, "gather"), 4}, {context_on(2), 4, true}});
}

}  // namespace short_rows_test
