// What expert_parallel asks for, claims, refuses and predicts.
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "plugins/strategies/expert_parallel/expert_parallel.h"
#include "plugins/strategies/expert_parallel/mixtures.h"

namespace options_test {

using namespace capstan;
using testing::experts_on;
using testing::mixture;

namespace {

std::string error_of(int world, const std::string& config, const std::vector<plugin::Registration>& types = {}) {
  try {
    // 24 samples are shared by all the worlds here, so that nothing else is wrong.
    testing::train(
        {.world = world, .config = config, .overrides = {"train.global_batch=24"}, .steps = 1, .types = types});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

expert_parallel::ExpertParallel make(std::int64_t size, double factor) {
  config::Section section{"strategy.expert_parallel", {}, {}};
  section.entries.push_back({"size", size, {}});
  section.entries.push_back({"memory_factor", factor, {}});
  Diagnostics diagnostics;
  expert_parallel::ExpertParallel plugin{{section, diagnostics}};
  diagnostics.throw_if_any();
  return plugin;
}

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>&) {}
};

class KeepsGradientsLocal : public strategy::Strategy {
 public:
  explicit KeepsGradientsLocal(const config::Options<NoOptions>&) {}
  void claim(strategy::Claims& claims) const override { claims.exclusive("summed gradients on dp"); }
};

}  // namespace

TEST_CASE("a model without experts is refused") {
  const auto error = error_of(2, experts_on(2));
  CHECK_THAT(error, Contains("strategy.expert_parallel needs a model with experts, and this one has none"));
  CHECK_THAT(error, Contains("remove [strategy.expert_parallel], or train a mixture of experts"));
}

TEST_CASE("experts that ranks cannot share evenly are refused, with the sizes that they can") {
  const auto error = error_of(3, mixture() + experts_on(3));
  CHECK_THAT(error, Contains("test.toml:"));
  CHECK_THAT(error, Contains("strategy.expert_parallel.size is 3, but 4 experts cannot be shared evenly by 3 ranks"));
  CHECK_THAT(error, Contains("use a size of 1, 2 or 4"));
  CHECK_THAT(error_of(8, mixture() + experts_on(8)), Contains("4 experts cannot be shared evenly by 8 ranks"));
}

TEST_CASE("sizes that do not make up the world are refused with the arithmetic") {
  CHECK_THAT(error_of(6, mixture() + experts_on(4)),
             Contains("world 6 is no multiple of ep 4 (ep by strategy.expert_parallel (") &&
                 Contains("start 4 or 8 ranks, or change these sizes"));
  CHECK_THAT(error_of(2, mixture() + experts_on(0)), Contains("strategy.expert_parallel.size is 0"));
  CHECK_THAT(error_of(2, mixture() + "[strategy.expert_parallel]\n"), Contains("strategy.expert_parallel.size"));
}

TEST_CASE("gradients that stay local cannot be had with experts on other ranks") {
  const auto keeps = testing::type<strategy::Strategy, KeepsGradientsLocal, NoOptions>("strategy", "keeps");
  CHECK_THAT(error_of(2, mixture() + experts_on(2) + "[strategy.keeps]\n", {keeps}),
             Contains("both claim summed gradients on dp"));
}

TEST_CASE("memory is predicted for an even load times the factor, which is printed") {
  strategy::Facts facts;
  facts.mesh = layout::Mesh({{layout::Axis::ep, 2}});
  facts.model.num_experts = 8;
  facts.model.experts_per_token = 2;
  facts.model.hidden_size = 64;
  facts.micro_batch = 3;
  facts.sequence_length = 100;
  facts.device = "cuda";
  for (const auto& [precision, bytes] : {std::pair{"fp64", 8}, {"fp32", 4}, {"bf16", 2}, {"fp16", 2}}) {
    facts.precision = precision;
    const auto parts = make(2, 1.5).footprint(facts);
    REQUIRE(parts.size() == 1);
    CHECK(parts[0].part == "expert rows, even load x 1.5");
    CHECK(parts[0].bytes == std::int64_t{4} * 900 * 64 * bytes);  // 3 x 100 tokens, 2 experts each, x 1.5; 4 buffers
    CHECK(parts[0].device == "cuda");
    CHECK(parts[0].when == "forward");
  }
  CHECK(make(2, 2.0).footprint(facts)[0].part == "expert rows, even load x 2");
  facts.mesh = layout::Mesh({{layout::Axis::dp, 2}});
  CHECK(make(1, 1.5).footprint(facts).empty());
}

TEST_CASE("a rank holds its experts and all else whole; only the experts' gradients leave ep out") {
  class Look : public strategy::Strategy {
   public:
    explicit Look(const config::Options<NoOptions>&) {}
    std::unique_ptr<strategy::UnitHooks> wrap(nn::Unit& unit) override {
      for (const auto& weight : unit.weights()) {
        for (const auto& record : weight->records()) {
          const bool is_expert = record.name.find("experts") != std::string::npos;
          const auto box = record.compute.box(record.shape, layout::Mesh({{layout::Axis::ep, 2}}), 1);
          if (box != (is_expert ? second_half(record.shape) : layout::Box::whole(record.shape)))
            throw std::logic_error(record.name + " has box " + box.text());
          const auto ep = std::count(record.data_axes.begin(), record.data_axes.end(), layout::Axis::ep);
          if (ep != (is_expert ? 0 : 1)) throw std::logic_error(record.name + ": wrong data axes");
        }
      }
      return nullptr;
    }

   private:
    static layout::Box second_half(const layout::Shape& shape) {
      auto box = layout::Box::whole(shape);
      box.offset[0] = box.size[0] = shape[0] / 2;
      return box;
    }
  };
  const auto look = testing::type<strategy::Strategy, Look, NoOptions>("strategy", "look");
  CHECK(error_of(2, mixture() + experts_on(2) + "[strategy.look]\n", {look}).empty());
}

}  // namespace options_test
