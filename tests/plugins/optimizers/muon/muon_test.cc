// Muon against its formula on one rank, its options, and which records it leaves to AdamW.
#include "plugins/optimizers/muon/muon.h"

#include <ATen/ATen.h>
#include <capstan/adamw/adamw.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <cmath>

#include "support/errors.h"
#include "support/options.h"

namespace muon_test {

using namespace capstan;
using matrix_rules::Part;
using optimizer::Slice;

namespace {

muon::Muon rule(const testing::OptionValues& values = {}) {
  return muon::Muon(testing::options_of<muon::MuonOptions>("optimizer", values));
}

layout::Param record(const layout::Shape& shape, bool decay = true, layout::Usage usage = layout::Usage::layer) {
  auto param = nn::record("h.weight", shape, layout::Init::zeros(), decay);
  param.usage = usage;
  return param;
}

optimizer::Update update(double count = 1, double scale = 1, bool skip = false) {
  return {at::full({}, count, at::kDouble), at::full({}, scale, at::kFloat),
          at::full({}, skip ? 1.0 : 0.0, at::kFloat)};
}

at::Tensor numbers(std::int64_t n, double phase) { return (at::arange(n, at::kDouble) * 1.7 + phase).sin(); }

// A matrix that this rank has whole, as the engine gives it to the rule.
struct One {
  explicit One(const layout::Shape& shape) : param(record(shape)) {
    slice.record = &param;
    slice.box = layout::Box::whole(param.shape);
    slice.lr = 0.02;
    slice.weight_decay = 0.1;
    slice.master = numbers(param.numel(), 0.3);
    slice.state = {at::zeros_like(slice.master)};
  }

  void step(muon::Muon& rule, const optimizer::Update& by) {
    const auto n = param.shape.size();
    auto part = at::empty_like(slice.master);
    std::vector<Part> parts{{slice, part}};
    rule.begin(parts, by);
    const auto count = param.numel() / (param.shape[n - 2] * param.shape[n - 1]);
    rule.whole({std::vector<const layout::Param*>(static_cast<std::size_t>(count), &param),
                part.view({count, param.shape[n - 2], param.shape[n - 1]})},
               by);
    parts[0].grad.reset();
    rule.finish(parts, by);
  }

  layout::Param param;
  Slice slice;
};

// Jordan et al. 2024 by singular values, with momentum that is an average; one matrix.
struct Reference {
  at::Tensor x, m;
  double mu;
  bool nesterov;
  double factor;  // of the orthogonal update
  void step(const at::Tensor& g, double lr, double decay) {
    m = mu * m + (1 - mu) * g;
    const auto [u, singular, v] = at::linalg_svd(nesterov ? mu * m + (1 - mu) * g : m, false);
    auto s = singular / (singular.square().sum().sqrt() + 1e-7);
    for (int i = 0; i < 5; ++i) s = 3.4445 * s - 4.7750 * s.pow(3) + 2.0315 * s.pow(5);
    x = x - lr * decay * x - lr * factor * at::matmul(u * s, v);
  }
};

}  // namespace

TEST_CASE("a matrix follows the formula, with the scale of gradients, decoupled decay and each option") {
  const auto [rows, cols] = GENERATE(values<std::pair<std::int64_t, std::int64_t>>({{6, 4}, {4, 9}}));
  const bool nesterov = GENERATE(true, false);
  const std::string scale = GENERATE("match_rms_adamw", "original");
  INFO(rows << " x " << cols << ", " << nesterov << ", " << scale);
  const double factor = scale == "original" ? (rows == 6 ? std::sqrt(1.5) : 1) : 0.2 * std::sqrt(rows == 6 ? 6 : 9);
  auto mine = rule({{"momentum", 0.8}, {"nesterov", nesterov}, {"scale", scale}});
  One one({rows, cols});
  Reference reference{one.slice.master.view({rows, cols}).clone(), at::zeros({rows, cols}, at::kDouble), 0.8, nesterov,
                      factor};
  for (int step = 0; step < 4; ++step) {
    const auto gradient = numbers(rows * cols, step);
    one.slice.grad = gradient * 2;
    one.step(mine, update(step + 1, 2));
    reference.step(gradient.view({rows, cols}), 0.02, 0.1);
    CHECK(at::allclose(one.slice.master.view({rows, cols}), reference.x, 0, 1e-12));
    CHECK(at::allclose(one.slice.state[0].view({rows, cols}), reference.m, 0, 1e-13));
  }
}

TEST_CASE("each expert's matrices are updated as if they were alone") {
  One all({3, 2, 4, 5});
  all.slice.grad = numbers(all.param.numel(), 1);
  auto mine = rule();
  std::vector<at::Tensor> alone;
  for (std::int64_t i = 0; i < 6; ++i) {
    One one({4, 5});
    one.slice.master = all.slice.master.narrow(0, i * 20, 20).clone();
    one.slice.grad = all.slice.grad.narrow(0, i * 20, 20);
    one.step(mine, update());
    alone.push_back(one.slice.master);
  }
  all.step(mine, update());
  CHECK(at::allclose(all.slice.master, at::cat(alone), 0, 1e-13));
}

TEST_CASE("a rank that gives no part keeps its momentum all the same") {
  One one({4, 5});
  one.slice.grad = numbers(20, 1);
  auto mine = rule({{"momentum", 0.5}});
  std::vector<Part> parts{{one.slice}};
  mine.begin(parts, update());
  CHECK(at::allclose(one.slice.state[0], one.slice.grad * 0.5, 0, 1e-15));
}

TEST_CASE("a step that is skipped changes nothing, whatever its gradients and their scale are") {
  One one({4, 5});
  one.slice.grad = numbers(20, 1);
  auto mine = rule();
  one.step(mine, update());
  const auto master = one.slice.master.clone(), momentum = one.slice.state[0].clone();
  for (const double scale : {1.0, std::nan(""), HUGE_VAL}) {
    one.slice.grad = at::full({20}, scale == 1.0 ? HUGE_VAL : std::nan(""), at::kDouble);
    one.step(mine, update(2, scale, true));
    CHECK(at::equal(one.slice.master, master));
    CHECK(at::equal(one.slice.state[0], momentum));
  }
}

TEST_CASE("AdamW updates what is no matrix of a layer, with a factor of its own") {
  auto mine = rule({{"adamw_betas", std::vector<double>{0.8, 0.9}}, {"adamw_lr_factor", 0.5}});
  const auto is_muons = [&](const layout::Param& param) {
    const bool whole = mine.whole_spec(param, at::kDouble, at::kCPU).has_value();
    CHECK(mine.states(param).size() == (whole ? 1 : 2));
    return whole;
  };
  using layout::Usage;
  CHECK(is_muons(record({4, 5})));
  CHECK(is_muons(record({3, 4, 5})));
  CHECK_FALSE(is_muons(record({4})));
  CHECK_FALSE(is_muons(record({3, 4}, /*decay=*/false)));
  for (const auto usage : {Usage::table, Usage::head, Usage::adapter})
    CHECK_FALSE(is_muons(record({4, 5}, true, usage)));
  mine = rule({{"adapters", true}});
  CHECK(is_muons(record({4, 5}, true, Usage::adapter)));
  CHECK_FALSE(is_muons(record({4, 5}, true, Usage::head)));

  mine = rule({{"adamw_betas", std::vector<double>{0.8, 0.9}}, {"adamw_lr_factor", 0.5}});
  auto vector = record({6}, false);
  Slice slice;
  slice.record = &vector;
  slice.lr = 0.02;
  slice.master = numbers(6, 0);
  slice.grad = numbers(6, 1);
  slice.state = {at::zeros({6}, at::kDouble), at::zeros({6}, at::kDouble)};
  auto other = slice;
  other.lr = 0.01;
  other.master = slice.master.clone();
  other.state = {at::zeros({6}, at::kDouble), at::zeros({6}, at::kDouble)};
  std::vector<Slice> slices{slice}, others{other};
  mine.apply(slices, update());
  optimizer::adamw({.betas = {0.8, 0.9}})->apply(others, update());
  CHECK(at::equal(slice.master, other.master));
}

TEST_CASE("matrices are computed in bfloat16 on GPUs, and exactly where masters are float64") {
  const auto mine = rule();
  const auto matrix = record({4, 5});
  CHECK(mine.whole_spec(matrix, at::kFloat, at::kCUDA)->dtype == at::kBFloat16);
  CHECK(mine.whole_spec(matrix, at::kDouble, at::kCUDA)->dtype == at::kDouble);
  CHECK(mine.whole_spec(matrix, at::kFloat, at::kCPU)->dtype == at::kFloat);
}

TEST_CASE("faults of options are said with their line") {
  CHECK_THAT(test::error_of([] {
               rule({{"momentum", 1.0}});
             }),
             Contains("a.toml:2: optimizer.momentum is 1.0") && Contains("such as 0.95"));
  CHECK_THAT(test::error_of([] {
               rule({{"adamw_betas", std::vector<double>{0.9}}});
             }),
             Contains("a.toml:2: optimizer.adamw_betas is [0.9]") && Contains("such as [0.9, 0.999]"));
  CHECK_THAT(test::error_of([] {
               rule({{"scale", "rms"}});
             }),
             Contains("optimizer.scale") && Contains("match_rms_adamw") && Contains("original"));
}

TEST_CASE("it learns, and resumes bit by bit") {
  const testing::Setting mine{
      .world = 2,
      .config = "[optimizer]\nplugin = \"muon\"\nlr = 1e-3\n[strategy.fsdp]\n",
      .overrides = {"run.deterministic=true"},
      .types = {testing::type<optimizer::Rule, muon::Muon, muon::MuonOptions>("optimizer", "muon")}};
  const auto run = testing::train(mine);
  CHECK(run.losses.back() < run.losses.front());
  CHECK(testing::differences(testing::train_resumed(mine, 7, mine), run, 0) == "");
}

}  // namespace muon_test
