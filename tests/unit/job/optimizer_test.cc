// [optimizer]: what a rule says of itself reaches the engine and the prediction of memory, and groups of parameters.
#include <capstan/optimizer.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/job.h"
#include "support/small_run.h"

namespace optimizer_test {

using namespace capstan;

namespace {

struct RuleOptions {
  std::int64_t states = 1;
  bool fused = false;
  bool by_record = false;
  static void describe(config::OptionTable<RuleOptions>& t) {
    t.add("states", &RuleOptions::states).doc("tensors a slice");
    t.add("fused", &RuleOptions::fused).doc("is_fused");
    t.add("by_record", &RuleOptions::by_record).doc("grain");
  }
};

int slices_with_copy = 0;

// Descent with weight decay, in whatever slices it gets.
class Own : public optimizer::Rule {
 public:
  explicit Own(config::Options<RuleOptions> options) : options_(std::move(options)) {}
  std::vector<optimizer::StateSpec> states(const layout::Param&) const override {
    std::vector<optimizer::StateSpec> specs;
    for (std::int64_t i = 0; i < options_->states; ++i) specs.push_back({"state_of_test_" + std::to_string(i)});
    return specs;
  }
  optimizer::Grain grain() const override {
    return options_->by_record ? optimizer::Grain::record : optimizer::Grain::element;
  }
  bool is_fused() const override { return options_->fused; }
  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& update) override {
    for (auto& slice : slices) {
      CHECK((slice.record != nullptr || !options_->by_record));
      const auto gradient = (slice.grad / update.grad_scale).to(slice.master.scalar_type());
      slice.master.mul_(1 - slice.lr * slice.weight_decay).sub_(gradient, slice.lr);
      if (!slice.copy.defined()) continue;
      slice.copy.copy_(slice.master);
      ++slices_with_copy;
    }
  }

 private:
  config::Options<RuleOptions> options_;
};

plugin::Registration own() { return testing::type<optimizer::Rule, Own, RuleOptions>("optimizer", "own_rule"); }

job::Job prepare(const std::string& tables, std::vector<std::string> overrides = {}) {
  static plugin::Host host;
  static const bool once = (host.add(own()), true);
  CHECK(once);
  setup::JobRequest request;
  request.file = testing::small_config(tables);
  overrides.emplace_back("checkpoint.every_steps=5");
  request.overrides = std::move(overrides);
  return testing::job_of(request, host);
}

std::int64_t bytes_of(const job::Job& job, const std::string& part) {
  for (const auto& footprint : job.prediction.footprints) {
    if (footprint.part == part) return footprint.bytes;
  }
  return -1;
}

std::string options(std::int64_t states, bool fused = false, bool by_record = false) {
  return "[optimizer]\nplugin = \"own_rule\"\nstates = " + std::to_string(states) +
         "\nfused = " + (fused ? "true" : "false") + "\nby_record = " + (by_record ? "true" : "false") + "\n";
}

testing::TrainResult trained(int world, const std::string& tables, const std::vector<std::string>& overrides = {}) {
  return testing::train({.world = world, .config = tables, .overrides = overrides, .steps = 4, .types = {own()}});
}

}  // namespace

TEST_CASE("a fused rule writes the copies of what is offloaded, with the same result, whatever its grain") {
  const bool by_record = GENERATE(false, true);
  const auto run = [&](bool fused) {
    slices_with_copy = 0;
    return trained(1, options(0, fused, by_record) + "[strategy.zero]\nstage = 1\noffload_optimizer = \"cpu\"\n",
                   {"train.precision=bf16"});
  };
  const auto plain = run(false);
  CHECK(slices_with_copy == 0);
  const auto fused = run(true);
  CHECK(slices_with_copy > 0);
  CHECK(testing::differences(fused, plain, 0) == "");
}

TEST_CASE("the memory predicted for optimizer state is what the rule asks for, and so is what a checkpoint holds") {
  const auto adamw = prepare("");
  const auto two = bytes_of(adamw, "optimizer state");
  REQUIRE(two > 0);
  const auto saved = bytes_of(adamw, "checkpoint copy");
  REQUIRE(saved > 0);
  for (const std::int64_t states : {0, 1, 2, 3}) {
    INFO(states << " states");
    const auto job = prepare("", {"optimizer.plugin=own_rule", "optimizer.states=" + std::to_string(states)});
    CHECK(bytes_of(job, "optimizer state") == two / 2 * states);
    // Parameters and `states` tensors of their size, where AdamW has three in all.
    CHECK(bytes_of(job, "checkpoint copy") == saved / 3 * (1 + states));
    comm::run_in_process(1, [&](comm::Communicator& communicator) {
      const auto session = step::materialise(job, communicator);
      CHECK(layout::total_bytes(session.engine->footprint(), "cpu") ==
            layout::total_bytes(job.prediction.footprints, "cpu"));
    });
  }
}

TEST_CASE("slices by record and by weight learn the same on every layout") {
  const auto reference = trained(1, options(1));
  for (const auto* sharding : {"", "[strategy.fsdp]\n", "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\n"}) {
    for (const bool by_record : {false, true}) {
      INFO(sharding << by_record);
      CHECK(testing::differences(trained(3, options(1, false, by_record) + sharding), reference, 1e-10) == "");
    }
  }
}

TEST_CASE("a group has its learning rate, its decay and its rule, on every layout") {
  const std::string base = "[optimizer]\nplugin = \"own_rule\"\nweight_decay = 0.1\nclip = 0.0\nwarmup_steps = 0\n";
  const std::string groups =
      "[[optimizer.groups]]\nrecords = [\"*.q.weight\"]\nlr_factor = 0.0\n"
      "[[optimizer.groups]]\nrecords = [\"*.k.weight\", \"*.bias\"]\nlr_factor = 0.5\nweight_decay = 2.0\n"
      "[[optimizer.groups]]\nrecords = [\"*.v.weight\"]\nplugin = \"adamw\"\nbetas = [0.5, 0.75]\n";
  const auto plain = trained(1, base), grouped = trained(1, base + groups);
  std::set<std::string> same;
  const auto start = testing::train({.config = base + "lr = 0.0\n", .steps = 1, .types = {own()}});
  for (const auto& [name, weight] : grouped.weights) {
    if (at::equal(weight, start.weights.at(name))) same.insert(name);
  }
  CHECK_FALSE(same.empty());
  for (const auto& name : same) CHECK(strategy::matches("*.q.weight", name));
  CHECK(testing::weight_distance(plain, grouped) > 0);
  for (const auto* sharding : {"[strategy.fsdp]\n", "[strategy.zero]\nstage = 1\noffload_optimizer = \"cpu\"\n"})
    CHECK(testing::differences(trained(3, base + groups + sharding), grouped, 1e-10) == "");
}

TEST_CASE("faults of groups say what and where") {
  CHECK_THROWS_WITH(prepare("[[optimizer.groups]]\nrecords = [\"*.nothing\"]\n"),
                    Contains("optimizer.groups.1.records has \"*.nothing\", which is the name of no parameter"));
  CHECK_THROWS_WITH(prepare("[[optimizer.groups]]\nlr_factor = 2.0\n"), Contains("optimizer.groups.1.records"));
  CHECK_THROWS_WITH(prepare("[[optimizer.groups]]\nrecords = [\"*\"]\nbetas = [0.5, 0.5]\n"),
                    Contains("optimizer.groups.1.betas"));
  CHECK_THROWS_WITH(prepare("[[optimizer.groups]]\nrecords = [\"*.q.weight\"]\n[[optimizer.groups]]\nrecords = "
                            "[\"*.q.weight\"]\nlr_factor = 2.0\n"),
                    Contains("optimizer.groups.2 has no effect: all parameters that it names belong to groups before"));
  CHECK_THROWS_WITH(prepare("", {"optimizer.plugin=adamv"}), Contains("adamv"));
  CHECK_THROWS_WITH(prepare("", {"optimizer.beta=0.5"}), Contains("optimizer.beta"));
}

TEST_CASE("a group of frozen parameters, and a rule for matrices that gets none, are refused") {
  const std::string adapters = "[strategy.lora]\nrank = 4\n";
  const std::string group = "[[optimizer.groups]]\nrecords = [\"*.bias\"]\n";
  CHECK_THROWS_WITH(prepare(adapters + group),
                    Contains("optimizer.groups.1 has no effect: all parameters that it names are frozen"));
  CHECK_THROWS_WITH(prepare(adapters, {"optimizer.plugin=muon"}),
                    Contains("the optimizer 'muon' has no effect: nothing that it trains is a matrix"));
  CHECK_THROWS_WITH(prepare(group + "plugin = \"muon\"\n"), Contains("'muon' has no effect: nothing that it trains"));
  CHECK_NOTHROW(prepare(group, {"optimizer.plugin=muon"}));
  CHECK_NOTHROW(prepare(adapters, {"optimizer.plugin=muon", "optimizer.adapters=true"}));
  CHECK_NOTHROW(prepare("[[optimizer.groups]]\nrecords = [\"*.q.weight\", \"*.bias\"]\nplugin = \"muon\"\n"));
}

}  // namespace optimizer_test
