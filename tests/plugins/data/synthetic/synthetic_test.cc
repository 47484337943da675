#include "plugins/data/synthetic/synthetic.h"

#include "tokenizer/byte_tokenizer.h"

#include <capstan_catch.h>

#include <algorithm>
#include <set>

#include "support/options.h"

using namespace capstan;
using namespace synthetic;

namespace {

using Values = testing::OptionValues;

config::Options<SyntheticOptions> options(const Values& values) {
  return testing::options_of<SyntheticOptions>("data", values);
}

std::shared_ptr<data::DataSource> open(const Values& values, std::int64_t length, std::int64_t vocab_size,
                                       data::Split split = data::Split::train) {
  return SyntheticData(options(values)).open({split, std::make_shared<tokenizer::ByteTokenizer>(), length, vocab_size});
}

}  // namespace

TEST_CASE("samples have the asked length, span the model's vocabulary and bear loss after the first token") {
  const auto source = open({{"samples", 40}}, 50, 300);
  REQUIRE(source->size() == 40);
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < source->size(); ++i) {
    const auto sample = source->get(i);
    REQUIRE(sample.tokens.size() == 50);
    REQUIRE(sample.is_target.size() == 50);
    CHECK_FALSE(sample.is_target.front());
    CHECK(std::count(sample.is_target.begin(), sample.is_target.end(), true) == 49);
    CHECK(sample.prompt_length == 1);
    seen.insert(sample.tokens.begin(), sample.tokens.end());
  }
  CHECK(*seen.begin() >= 0);
  CHECK(*seen.rbegin() < 300);
  CHECK(*seen.rbegin() > 257);  // beyond the tokenizer's ids
  // 2,000 uniform draws leave 300 x (1 - 1/300)^2000 = 0.4 of the 300 ids out on average; 5 would be a broken spread.
  CHECK(seen.size() > 295);
}

TEST_CASE("a sample depends on the seed, the split and its index, and on nothing else") {
  const auto source = open({{"samples", 3}, {"eval_samples", 3}}, 20, 1000);
  CHECK(source->get(1).tokens == open({{"samples", 9}}, 20, 1000)->get(1).tokens);
  CHECK(source->get(1).id == "synthetic-1");
  CHECK(source->get(0).tokens != source->get(1).tokens);
  CHECK(source->get(1).tokens != open({{"seed", 2}}, 20, 1000)->get(1).tokens);
  CHECK(source->get(1).tokens != open({{"eval_samples", 3}}, 20, 1000, data::Split::eval)->get(1).tokens);
}

TEST_CASE("a share of the tokens bears loss: the last ones, at least one and never the first") {
  const std::vector<std::pair<double, std::int64_t>> expected{{0.024, 12}, {0.0, 1}, {1.0, 512}, {0.5, 257}};
  for (const auto& [share, targets] : expected) {
    const auto sample = open({{"target_share", share}}, 513, 300)->get(3);
    CHECK(std::count(sample.is_target.begin(), sample.is_target.end(), true) == targets);
    CHECK(std::is_sorted(sample.is_target.begin(), sample.is_target.end()));
    CHECK(sample.prompt_length == 513 - targets);
    CHECK(sample.tokens == open({}, 513, 300)->get(3).tokens);
  }
}

TEST_CASE("there is no evaluation unless samples for it are asked for") {
  CHECK(open({}, 20, 1000, data::Split::eval) == nullptr);
  CHECK(open({{"eval_samples", 4}}, 20, 1000, data::Split::eval)->size() == 4);
}

TEST_CASE("a length that leaves nothing to predict is refused") {
  CHECK(SyntheticData(options({{"max_length", 33}})).max_length() == 33);
  Diagnostics diagnostics;
  SyntheticData(options({{"max_length", 1}})).check(diagnostics);
  REQUIRE(diagnostics.size() == 1);
  const auto& fault = diagnostics.list().front();
  CHECK(fault.where == "a.toml:2");
  CHECK(fault.what == "data.max_length is 1, which leaves no token to predict");
  CHECK(fault.fix == "use 2 or more, or 0 for the model's length");
  CHECK_THROWS_WITH(open({}, 1, 1000), Contains("a.toml:1: the model has 1 position"));
}
