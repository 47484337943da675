#include "nn/model_summary.h"
#include <capstan_catch.h>

#include "nn/weights.h"

namespace model_summary_test {

using namespace capstan;

namespace {

class Plain : public nn::Unit {
 public:
  Plain(const std::string& name, std::vector<nn::WeightPtr> weights) : Unit(name) {
    for (auto& weight : weights) add(std::move(weight));
  }
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch&, nn::KVCache*) override { return hidden; }
};

nn::WeightPtr weight(std::int64_t elements, bool trainable = true) {
  auto record = nn::record("w", {elements}, layout::Init::zeros(), true);
  record.trainable = trainable;
  return std::make_shared<nn::Weight>(std::vector<layout::Param>{record});
}

}  // namespace

TEST_CASE("a summary counts each weight once and puts equal neighbours together") {
  std::vector<std::unique_ptr<nn::Unit>> units;
  const auto tied = weight(4000);
  units.push_back(std::make_unique<Plain>("embedding", std::vector{tied}));
  for (const char* name : {"blocks.0", "blocks.1"})
    units.push_back(std::make_unique<Plain>(name, std::vector{weight(20), weight(3)}));
  units.push_back(std::make_unique<Plain>("blocks.2", std::vector{weight(7)}));
  units.push_back(std::make_unique<Plain>("head", std::vector{tied, weight(1)}));
  CHECK(nn::summarise(units).text() == "4,054 parameters = embedding 4,000 + 2 blocks x 23 + blocks 7 + head 1");
  units.push_back(std::make_unique<Plain>("adapter", std::vector{weight(1000, false)}));
  const auto summary = nn::summarise(units);
  CHECK(summary.parameters == 5054);
  CHECK(summary.trainable == 4054);
  CHECK(summary.text() ==
        "5,054 parameters (4,054 trainable) = embedding 4,000 + 2 blocks x 23 + blocks 7 + head 1 + adapter 1,000");
}

}  // namespace model_summary_test
