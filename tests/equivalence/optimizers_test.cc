// Optimizers x ways to share a model and its optimizer's state: gradients, weights and states by name are one rank's.
#include <ATen/ATen.h>
#include <capstan/adamw/adamw.h>
#include <capstan/matrix_rules/matrix_rule.h>
#include <capstan/matrix_rules/summing_rule.h>
#include <capstan/optimizer.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <map>
#include <utility>

#include "docs/examples/optimizers/adafactor/adafactor.h"
#include "support/compositions.h"

namespace optimizers_test {

using namespace capstan;
using namespace capstan::testing;
using capstan::testing::train;  // capstan::train is a namespace, too

namespace {

// What a step leaves in the states counts in the next one: once before the resume, once in it and once after it.
constexpr std::int64_t steps = 4;
constexpr std::int64_t saved_after = 2;
// float64 sums in another order, amplified by AdamW: what the project promises.
constexpr double tolerance = 1e-10;

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>& /*t*/) {}
};

// AdamW on boxes of records, as rules with blocks get them.
class ByRecord : public optimizer::Rule {
 public:
  explicit ByRecord(const config::Options<NoOptions>& /*options*/) {}
  std::vector<optimizer::StateSpec> states(const layout::Param& record) const override {
    return inner_->states(record);
  }
  optimizer::Grain grain() const override { return optimizer::Grain::record; }
  bool is_fused() const override { return inner_->is_fused(); }
  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& update) override {
    inner_->apply(slices, update);
  }

 private:
  std::unique_ptr<optimizer::Rule> inner_ = optimizer::adamw({});
};

// A preconditioner for each whole matrix, which the matrix's owner keeps.
class Preconditioned : public matrix_rules::MatrixRule {
 public:
  explicit Preconditioned(const config::Options<NoOptions>& /*options*/) {}
  std::vector<optimizer::StateSpec> states(const layout::Param& /*record*/) const override { return {}; }
  std::optional<matrix_rules::WholeSpec> whole_spec(const layout::Param& record, c10::ScalarType master,
                                                    c10::DeviceType /*device*/) const override {
    const auto rows = record.shape[record.shape.size() - 2];
    return matrix_rules::WholeSpec{master, static_cast<double>(rows), 0, {{"left", master, {rows, rows}}}};
  }
  void begin(std::vector<matrix_rules::Part>& parts, const optimizer::Update& update) override {
    for (auto& part : parts) {
      if (part.part.defined()) part.part.copy_(part.grad / update.grad_scale);
    }
  }
  void whole(const matrix_rules::Matrices& matrices, const optimizer::Update& update) override {
    const auto& m = matrices.value;
    matrices.state[0].add_(at::bmm(m, m.transpose(1, 2)) * (1 - update.skip));
    m.copy_(at::linalg_solve(matrices.state[0] + 0.1 * at::eye(m.size(1), m.options()), m));
  }
  void finish(std::vector<matrix_rules::Part>& parts, const optimizer::Update& /*update*/) override {
    for (auto& part : parts) part.master.sub_(part.part * part.lr);
  }
  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& update) override {
    for (auto& slice : slices) slice.master.sub_(slice.grad / update.grad_scale * slice.lr);
  }
};

// Steps as long as the parameter is (LARS, You et al. 2017), but for vectors, which have no sums.
class TrustRatio : public matrix_rules::SummingRule {
 public:
  explicit TrustRatio(const config::Options<NoOptions>& /*options*/) {}
  std::vector<optimizer::StateSpec> states(const layout::Param& /*record*/) const override { return {}; }
  std::vector<std::vector<matrix_rules::Kept>> sums(const layout::Param& record) const override {
    if (record.shape.size() < 2) return {};
    return {{matrix_rules::Kept{}, matrix_rules::Kept{}}};
  }
  std::vector<at::Tensor> terms(std::size_t /*pass*/, const matrix_rules::SummedSlice& slice,
                                const optimizer::Update& update) const override {
    return {slice.master.square(), (slice.grad / update.grad_scale).square()};
  }
  void finish(matrix_rules::SummedSlice& slice, const optimizer::Update& update) override {
    const auto ratio = slice.sums.empty() ? at::ones({}, slice.master.options())
                                          : (slice.sums[0][0] / (slice.sums[0][1] + 1e-12)).sqrt();
    slice.master.sub_(slice.grad / update.grad_scale * ratio * slice.lr * (1 - update.skip));
  }
};

struct Choice {
  std::string name;
  std::string tables;
};

// Patterns that records of every family match, adapters' too.
const std::vector<Choice> optimizers{
    {"adamw", "[optimizer]\nplugin = \"adamw\"\nbetas = [0.8, 0.95]\nweight_decay = 0.1\ndecay = \"all\"\n"},
    {"by record", "[optimizer]\nplugin = \"by_record\"\nweight_decay = 0.1\n"},
    {"groups",
     "[optimizer]\nweight_decay = 0.1\n"
     "[[optimizer.groups]]\nrecords = [\"*norm*\"]\nlr_factor = 0.5\nweight_decay = 0.3\n"
     "[[optimizer.groups]]\nrecords = [\"*.[1357].*\"]\nplugin = \"by_record\"\nlr_factor = 2.0\n"
     "[[optimizer.groups]]\nrecords = [\"*[kv]*\"]\nplugin = \"descent\"\n"},
};

// Matrices of layers whole, each on one rank; those of adapters too.
const Choice muon{"muon",
                  "[optimizer]\nplugin = \"muon\"\nlr = 0.01\nweight_decay = 0.1\nadapters = true\n"
                  "adamw_betas = [0.8, 0.95]\nadamw_lr_factor = 0.1\n"};

// Beside adapters norms are frozen, and a group of frozen parameters is refused.
std::string tables_of(const Choice& optimizer, bool with_adapters) {
  const std::string norms = "*norm*";
  auto tables = optimizer.tables;
  if (const auto at = tables.find(norms); with_adapters && at != std::string::npos)
    tables.replace(at, norms.size(), "*lora_A*");
  return tables;
}

Setting setting(const Family& family, const Choice& optimizer, bool with_adapters, const Composition& layout) {
  return {
      .world = layout.world,
      .config = family_config(family) + (with_adapters ? adapters_of(family) : "") +
                tables_of(optimizer, with_adapters) + layout.strategies,
      .overrides = {same_micro_steps},
      .steps = steps,
      .types = {type<optimizer::Rule, ByRecord, NoOptions>("optimizer", "by_record"),
                type<optimizer::Rule, Preconditioned, NoOptions>("optimizer", "preconditioned"),
                type<optimizer::Rule, TrustRatio, NoOptions>("optimizer", "trust_ratio"),
                type<optimizer::Rule, adafactor::Adafactor, adafactor::AdafactorOptions>("optimizer", "adafactor")}};
}

const TrainResult& alone(const Family& family, const Choice& optimizer, bool with_adapters) {
  static std::map<std::string, TrainResult> runs;
  const auto key = family.plugin + optimizer.name + (with_adapters ? " with adapters" : "");
  if (!runs.contains(key)) runs[key] = train(setting(family, optimizer, with_adapters, compositions().front()));
  return runs.at(key);
}

std::vector<Composition> layouts_of(const Family& family) {
  std::vector<Composition> layouts;
  for (const auto& layout : compositions()) {
    if (!layout.needs_experts || family.plugin == "mixtral") layouts.push_back(layout);
  }
  return layouts;
}

// The weights at the end, each to the tolerance times its own largest: what the step's losses and norms do not show is
// whether each record's master and moments came back to where they belong. (No parameter here has a gradient that is
// only rounding, which AdamW would turn into updates: keys are rotated, so that their biases count.)
std::string weight_differences(const TrainResult& run, const TrainResult& reference) {
  std::string text;
  if (run.weights.size() != reference.weights.size()) text += "another number of records; ";
  for (const auto& [name, weight] : reference.weights) {
    const auto found = run.weights.find(name);
    if (found == run.weights.end()) {
      text += name + " is missing; ";
      continue;
    }
    const auto apart = (found->second - weight).abs().max().item<double>();
    if (!(apart <= tolerance * weight.abs().max().item<double>()))
      text += name + " by " + std::to_string(apart / weight.abs().max().item<double>() * 1e10) + "e-10; ";
  }
  return text;
}

void check(const Family& family, const Choice& optimizer, bool with_adapters, const Composition& before,
           const Composition& after) {
  INFO(family.plugin << (with_adapters ? " with adapters" : "") << ", " << optimizer.name << ", from " << before.name
                     << " to " << after.name);
  const auto run = train_resumed(setting(family, optimizer, with_adapters, before), saved_after,
                                 setting(family, optimizer, with_adapters, after));
  const auto& reference = alone(family, optimizer, with_adapters);
  CHECK(differences(run, reference, tolerance) == "");
  CHECK(weight_differences(run, reference) == "");
}

// Each layout is left for another one and taken up from another one, `distance` further in the list, with an optimizer:
// each optimizer with and without adapters. Families begin at other ones.
void check_each_layout(const Family& family, std::size_t distance, std::size_t begin) {
  const auto layouts = layouts_of(family);
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const auto next = begin + i;
    check(family, optimizers[next % optimizers.size()], next / optimizers.size() % 2 == 1, layouts[i],
          layouts[(i + distance) % layouts.size()]);
  }
}

}  // namespace

TEST_CASE("float64: what optimizers of a mixture saved in one layout of strategies continues in another",
          "[matrix][train]") {
  check_each_layout(mixture(), 1, 0);
}

TEST_CASE("float64: what optimizers of a dense model saved in one layout of strategies continues in another",
          "[matrix][train]") {
  check_each_layout(dense(), layouts_of(dense()).size() / 2, optimizers.size());
}

TEST_CASE("float64: every way from one layout of strategies to another", "[.][full][matrix][train]") {
  for (const auto* family : {&mixture(), &dense()}) {
    for (const bool with_adapters : {false, true}) {
      for (const auto& before : layouts_of(*family)) {
        for (const auto& after : layouts_of(*family)) check(*family, optimizers[0], with_adapters, before, after);
      }
    }
  }
}

TEST_CASE("float64: every optimizer on every layout, whole and resumed", "[.][full][matrix][train]") {
  auto all = optimizers;
  all.push_back(muon);
  for (const auto* family : {&mixture(), &dense()}) {
    const auto layouts = layouts_of(*family);
    for (const auto& optimizer : all) {
      for (const bool with_adapters : {false, true}) {
        for (std::size_t i = 0; i < layouts.size(); ++i) {
          INFO(family->plugin << (with_adapters ? " with adapters" : "") << ", " << optimizer.name << ", "
                              << layouts[i].name);
          auto mine = setting(*family, optimizer, with_adapters, layouts[i]),
               other = setting(*family, optimizer, with_adapters, layouts[(i + 1) % layouts.size()]);
          auto one = setting(*family, optimizer, with_adapters, compositions().front());
          mine.steps = other.steps = one.steps = 8;
          const auto whole = train(one);
          CHECK(differences(train(mine), whole, tolerance) == "");
          CHECK(differences(train_resumed(mine, 3, other), whole, tolerance) == "");
        }
      }
    }
  }
}

// Every layout is one that muon moves other parts of matrices in, before it is saved and after.
TEST_CASE("float64: muon on every layout, saved on one and continued on the next", "[matrix][train]") {
  const auto* const family = GENERATE(&mixture(), &dense());
  const auto layouts = layouts_of(*family);
  // A dense model, whose matrices are a mixture's but for the experts, is saved or continued on each.
  for (std::size_t i = 0; i < layouts.size(); i += family == &mixture() ? 1 : 2) {
    const bool with_adapters = i % 4 == 0 || (i % 2 == 0 && family == &mixture());
    INFO(family->plugin << (with_adapters ? " with adapters" : "") << ", " << layouts[i].name);
    const auto mine = setting(*family, muon, with_adapters, layouts[i]);
    const auto other = setting(*family, muon, with_adapters, layouts[(i + 1) % layouts.size()]);
    CHECK(differences(train_resumed(mine, saved_after, other), alone(*family, muon, with_adapters), tolerance) == "");
  }
}

TEST_CASE("float64: states of whole matrices, saved on one layout and continued on the next", "[matrix][train]") {
  const Choice preconditioned{"preconditioned", "[optimizer]\nplugin = \"preconditioned\"\nlr = 0.01\n"};
  const auto layouts = layouts_of(mixture());
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const bool with_adapters = i % 3 == 2;
    INFO(layouts[i].name << (with_adapters ? " with adapters" : ""));
    const auto mine = setting(mixture(), preconditioned, with_adapters, layouts[i]);
    const auto other = setting(mixture(), preconditioned, with_adapters, layouts[(i + 1) % layouts.size()]);
    const auto run = train_resumed(mine, saved_after, other);
    CHECK(differences(run, alone(mixture(), preconditioned, with_adapters), tolerance) == "");
  }
}

// Ranks have parts of the records that are summed, other ones on each layout.
TEST_CASE("float64: rules with sums over records on every layout, saved on one and continued on the next",
          "[matrix][train]") {
  const Choice adafactor{"adafactor", "[optimizer]\nplugin = \"adafactor\"\nlr = 0.02\nweight_decay = 0.1\n"};
  const Choice trust_ratio{"trust_ratio", "[optimizer]\nplugin = \"trust_ratio\"\nlr = 0.01\n"};
  const auto* const family = GENERATE(&mixture(), &dense());
  auto layouts = layouts_of(*family);
  layouts.push_back({"PP 2", 2, "[strategy.pipeline_parallel]\nsize = 2\n"});
  layouts.push_back({"PP 2 x fsdp", 4, "[strategy.pipeline_parallel]\nsize = 2\n[strategy.fsdp]\n"});
  const std::size_t stride = family == &mixture() ? 1 : 2;
  for (std::size_t n = 0; n * stride < layouts.size(); ++n) {
    const auto i = n * stride;
    const bool resumes = n % 2 == 0, with_adapters = n % 3 == 2;
    const auto& optimizer = n % 4 == 3 ? trust_ratio : adafactor;
    INFO(family->plugin << ", " << optimizer.name << (with_adapters ? " with adapters" : "") << ", " << layouts[i].name
                        << (resumes ? ", resumed" : ""));
    const auto mine = setting(*family, optimizer, with_adapters, layouts[i]);
    const auto other = setting(*family, optimizer, with_adapters, layouts[(i + 1) % layouts.size()]);
    const auto run = resumes ? train_resumed(mine, saved_after, other) : train(mine);
    CHECK(differences(run, alone(*family, optimizer, with_adapters), tolerance) == "");
  }
}

TEST_CASE("the states that are compared are there, by name") {
  const auto& run = alone(dense(), optimizers[0], false);
  CHECK(run.states.size() == 2);
  CHECK(run.states.at("exp_avg_sq").size() == run.weights.size());
}

}  // namespace optimizers_test
