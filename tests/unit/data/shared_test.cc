// A share of the training samples for evaluation, and what a plugin has opened.
#include "data/shared.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <algorithm>
#include <set>

namespace shared_test {

using namespace capstan;
using namespace capstan::data;

namespace {

class Numbers final : public DataSource {
 public:
  Numbers(std::int64_t count, bool has_order) : count_(count), has_order_(has_order) {}
  std::int64_t size() const override { return count_; }
  Sample get(std::int64_t index) const override { return {{index, index + 1}, {false, true}, 0, {}, {}}; }
  std::unique_ptr<SampleOrder> order(const OrderRequest&) const override {
    class Always final : public SampleOrder {
      std::int64_t samples_per_epoch() const override { return 1; }
      std::vector<std::int64_t> samples(std::int64_t, std::int64_t, std::int64_t count) override {
        return std::vector<std::int64_t>(static_cast<std::size_t>(count));
      }
    };
    return has_order_ ? std::make_unique<Always>() : nullptr;
  }

 private:
  std::int64_t count_;
  bool has_order_;
};

struct Plugin : Data {
  std::int64_t samples = 100;
  bool has_eval = false;
  bool has_order = false;
  mutable int opened = 0;
  void check(Diagnostics&) const override {}
  std::shared_ptr<DataSource> open(const SplitRequest& request) const override {
    if (request.split == Split::eval && !has_eval && request.set.empty()) return nullptr;
    ++opened;
    return std::make_shared<Numbers>(samples, has_order);
  }
  std::int64_t max_length() const override { return 0; }
  bool evaluates() const override { return has_eval; }
};

std::set<std::int64_t> firsts(const DataSource& source) {
  std::set<std::int64_t> all;
  for (std::int64_t i = 0; i < source.size(); ++i) all.insert(source.get(i).tokens.front());
  CHECK(std::ssize(all) == source.size());
  return all;
}

SplitRequest request(Split split, std::string set = {}) { return {split, nullptr, 8, 1000, std::move(set)}; }

}  // namespace

TEST_CASE("a keyed choice depends on the seed and the indices, and grows by what it had") {
  const auto few = keyed_choice(1000, 20, 7);
  CHECK(few.size() == 20);
  CHECK(std::is_sorted(few.begin(), few.end()));
  CHECK(few == keyed_choice(1000, 20, 7));
  CHECK(few != keyed_choice(1000, 20, 8));
  const auto more = keyed_choice(1000, 50, 7);
  CHECK(std::includes(more.begin(), more.end(), few.begin(), few.end()));
  // Each half of the file has 250 of 500, with a standard deviation of 11: 200 would be no fair choice.
  const auto half = keyed_choice(1000, 500, 7);
  const auto in_first = std::lower_bound(half.begin(), half.end(), 500) - half.begin();
  CHECK(in_first > 200);
  CHECK(in_first < 300);
  CHECK(keyed_choice(5, 0, 1).empty());
  CHECK(keyed_choice(3, 3, 1) == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("each training sample is for training or for evaluation, whichever is opened first") {
  const auto plugin = std::make_shared<Plugin>();
  const SharedData data(plugin, {0.07, 3, "a.toml:4", ""});
  CHECK(data.evaluates());
  CHECK(data.text().empty());
  const auto eval = data.open(request(Split::eval)), train = data.open(request(Split::train));
  REQUIRE(eval);
  REQUIRE(train);
  CHECK(eval->size() == 7);
  CHECK(train->size() == 93);
  auto all = firsts(*eval);
  all.merge(firsts(*train));
  CHECK(all.size() == 100);
  CHECK(plugin->opened == 1);
  REQUIRE(data.opened().size() == 1);
  CHECK(data.opened().front().split == Split::train);
  CHECK_THAT(data.text(), Contains("7 of 100 training samples are for evaluation") && Contains("93 for training"));
  CHECK(firsts(*SharedData(plugin, {0.07, 3, "", ""}).open(request(Split::eval))) == firsts(*eval));
  CHECK(firsts(*SharedData(plugin, {0.07, 4, "", ""}).open(request(Split::eval))) != firsts(*eval));
  CHECK(data.open(request(Split::eval, "hard"))->size() == 100);  // a set that has a name is not shared
}

TEST_CASE("what is opened may be replaced by a cache for both parts") {
  const SharedData data(std::make_shared<Plugin>(), {0.5, 3, "", ""});
  const auto eval = data.open(request(Split::eval)), train = data.open(request(Split::train));
  class Other final : public DataSource {
    std::int64_t size() const override { return 100; }
    Sample get(std::int64_t index) const override { return {{1000 + index}, {true}, 0, {}, {}}; }
  };
  data.opened().front().source->source() = std::make_shared<Other>();
  CHECK(*firsts(*eval).begin() >= 1000);
  CHECK(*firsts(*train).begin() >= 1000);
}

TEST_CASE("a share and an evaluation file are refused together, and shares that leave nothing") {
  auto plugin = std::make_shared<Plugin>();
  plugin->has_eval = true;
  Diagnostics faults;
  SharedData(plugin, {0.1, 3, "a.toml:4", "data.eval, a.toml:2"}).check(faults);
  REQUIRE(faults.size() == 1);
  CHECK(faults.list().front().where == "a.toml:4");
  CHECK_THAT(faults.list().front().what, Contains("data.eval_fraction = 0.1") && Contains("a.toml:2"));
  CHECK_THROWS_WITH(SharedData(plugin, {0.1, 3, "a.toml:4", ""}).open(request(Split::train)),
                    Contains("names evaluation data"));
  Diagnostics none;
  SharedData(plugin, {0, 3, "", "data.eval, a.toml:2"}).check(none);
  CHECK(none.empty());
  plugin->has_eval = false;
  const auto open = [&](double fraction) { SharedData(plugin, {fraction, 3, "", ""}).open(request(Split::train)); };
  CHECK_THROWS_WITH(open(0.004), Contains("leaves no sample for evaluation"));
  CHECK_THROWS_WITH(open(0.996), Contains("leaves no sample for training"));
  plugin->samples = 0;
  CHECK_THROWS_WITH(open(0.5), Contains("of 0 training samples leaves no sample for evaluation"));
}

TEST_CASE("a part of what has an order of its own is refused") {
  auto plugin = std::make_shared<Plugin>();
  plugin->has_order = true;
  const SharedData data(plugin, {0, 3, "", ""});
  const auto whole = data.open(request(Split::train));
  CHECK(whole->order({}));
  CHECK(FirstSamples(whole, 100).order({}));
  CHECK_THROWS_WITH(FirstSamples(whole, 99).order({}), Contains("an order of their own"));
}

}  // namespace shared_test
