#include "nn/model_summary.h"
#include <capstan_catch.h>

#include <ATen/ATen.h>

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

namespace {

class Attending : public nn::Unit {
 public:
  explicit Attending(const nn::Attention::Kind& kind)
      : Unit("blocks.0"), attention_(*this, kind, {{weight(12), {}}, {weight(4), {}}, {}, {}, sinks(kind)}) {}
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch&, nn::KVCache*) override { return hidden; }

 private:
  static nn::WeightPtr sinks(const nn::Attention::Kind& kind) { return kind.spec.sinks ? weight(2) : nullptr; }
  nn::Attention attention_;
};

}  // namespace

TEST_CASE("a line says which rows compute attention, and what faster ones lack, where the plain one serves a layer") {
  std::vector<std::unique_ptr<nn::Unit>> units;
  nn::Attention::Kind kind;
  kind.spec.heads = {2, 2, 8};
  const nn::PlannedAttention on_cpu{at::empty({1}, at::kFloat), 64, true, false};
  const nn::PlannedAttention on_gpu{at::empty({1}, at::TensorOptions(at::kBFloat16).device(at::kMeta)), 64, true, true};
  units.push_back(std::make_unique<Attending>(kind));
  kind.spec.window = 8;
  units.push_back(std::make_unique<Attending>(kind));
  CHECK(nn::attention_text(units, on_cpu).empty());
  CHECK(nn::attention_text(units, on_gpu).empty());
  kind.spec.soft_cap = 50;
  units.push_back(std::make_unique<Attending>(kind));
  CHECK(nn::attention_text(units, on_cpu) ==
        "attention: SDPA in 1 layer, blocks of a window in 1 layer, plain (a soft cap: no faster row has it) in 1 "
        "layer\n");
  units.clear();
  kind = {};
  kind.spec.heads = {2, 2, 8};
  kind.spec.sinks = true;
  kind.dropout = 0.5;
  for (int i = 0; i < 2; ++i) units.push_back(std::make_unique<Attending>(kind));
  CHECK(nn::attention_text(units, on_gpu) ==
        "attention: plain (dropout on probabilities: no faster row has it) in 2 layers\n");
  CHECK(nn::attention_text(units, {on_gpu.like, 64, false, false}).empty());
  kind.dropout = 0;
  kind.spec.sinks = false;
  kind.spec.alibi = true;
  units.push_back(std::make_unique<Attending>(kind));
  CHECK(
      nn::attention_text(units, {on_cpu.like, 64, false, false}) ==
      "attention: plain (linear biases on a CPU: no faster row has it) in 1 layer, plain (sinks: no faster row has it) "
      "in 2 layers\n");
}

}  // namespace model_summary_test
