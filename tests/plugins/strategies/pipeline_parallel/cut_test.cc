// Where a model is cut: by hand for costs, and for models whose head or embedding is large.
#include "plugins/strategies/pipeline_parallel/cut.h"

#include <capstan_catch.h>

namespace cut_test {

using namespace pipeline_parallel;
using namespace capstan;

namespace {

using Firsts = std::vector<std::size_t>;

// Linears and tables of these sizes, and nothing that is computed.
class Sized : public nn::Unit {
 public:
  struct Sizes {
    std::int64_t looked_up = 0;
    std::int64_t multiplied = 0;
    bool trained = true;
  };
  Sized(const std::string& name, const Sizes& sizes) : Unit(name) {
    if (sizes.looked_up > 0)
      table_.emplace(*this, "table", nn::WeightSplit::none, matrix(name + ".table", sizes.looked_up, true));
    if (sizes.multiplied > 0) {
      linear_.emplace(*this, "linear", nn::WeightSplit::none, matrix(name + ".linear", sizes.multiplied, sizes.trained),
                      nullptr);
    }
  }
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch&, nn::KVCache*) override { return hidden; }

 private:
  nn::WeightPtr matrix(const std::string& name, std::int64_t elements, bool trained) {
    auto weight = add_record(name, {elements, 1}, layout::Init::zeros(), true);
    weight->records().front().trainable = trained;
    return weight;
  }
  std::optional<nn::Embedding> table_;
  std::optional<nn::Linear> linear_;
};

Units units_of(const std::vector<Sized::Sizes>& sizes) {
  Units units;
  for (const auto& each : sizes) units.push_back(std::make_unique<Sized>("unit" + std::to_string(units.size()), each));
  return units;
}

Firsts cut(const std::vector<Sized::Sizes>& sizes, std::size_t stages) {
  return balanced(costs_of(units_of(sizes)), stages);
}

}  // namespace

TEST_CASE("equal units are shared out, a head is as much work as its matrix, a table is none") {
  // Eight blocks of 10 with a head of 20: the last stage has fewer blocks.
  std::vector<Sized::Sizes> model{{20, 0}};
  for (int i = 0; i < 8; ++i) model.push_back({0, 10});
  model.push_back({0, 20});
  CHECK(cut(model, 1) == Firsts{0});
  CHECK(cut(model, 2) == Firsts{0, 6});  // 50 | 50, and not 40 | 60
  CHECK(cut(model, 10) == Firsts{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("among cuts of the same work, the largest stage has as few elements as possible") {
  const std::vector<Sized::Sizes> model{{15, 0}, {0, 10}, {0, 10}, {0, 10}, {0, 10}};
  CHECK(cut(model, 2) == Firsts{0, 3});
  // The most work is 20 whatever the first stage has: with a block, the table's stage has 25 elements, alone 15.
  CHECK(cut(model, 3) == Firsts{0, 1, 3});
}

TEST_CASE("the cut is the best of all, for costs in no order") {
  const std::vector<double> works{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
  std::vector<UnitCost> units;
  for (const auto work : works) units.push_back({work, 0});
  const auto most = [&](const Firsts& firsts) {
    double worst = 0;
    for (std::size_t s = 0; s < firsts.size(); ++s) {
      double sum = 0;
      for (auto i = firsts[s]; i < (s + 1 < firsts.size() ? firsts[s + 1] : works.size()); ++i) sum += works[i];
      worst = std::max(worst, sum);
    }
    return worst;
  };
  double best = 1e9;
  for (std::size_t a = 1; a < works.size(); ++a) {
    for (std::size_t b = a + 1; b < works.size(); ++b) best = std::min(best, most({0, a, b}));
  }
  CHECK(most(balanced(units, 3)) == best);
}

TEST_CASE("a model trains products if one of its matrices is trained, and no table counts") {
  CHECK(trains_products(units_of({{5, 0}, {0, 5, false}, {0, 5, true}})));
  CHECK_FALSE(trains_products(units_of({{5, 0}, {0, 5, false}})));
}

}  // namespace cut_test
