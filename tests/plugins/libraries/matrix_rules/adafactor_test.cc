// The example plugin Adafactor against its formula, which is given whole tensors.
#include "docs/examples/optimizers/adafactor/adafactor.h"

#include <capstan/testing.h>
#include <capstan_catch.h>

#include <cmath>

#include "shard/rig.h"
#include "support/options.h"

namespace adafactor_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

std::shared_ptr<adafactor::Adafactor> rule(const OptionValues& values = {}) {
  return std::make_shared<adafactor::Adafactor>(options_of<adafactor::AdafactorOptions>("optimizer", values));
}

// As transformers 5.17 has it (optimization.py) with scale_parameter=True, relative_step=False, beta1=None.
struct Reference {
  at::Tensor x;
  double clip;
  at::Tensor row = {}, column = {}, all = {};
  int count = 0;

  static double rms(const at::Tensor& t) { return t.square().mean().sqrt().item<double>(); }
  void average(at::Tensor& of, const at::Tensor& now) const {
    const double beta = 1 - std::pow(count, -0.8);
    of = of.defined() ? of * beta + now * (1 - beta) : now * (1 - beta);
  }
  void step(const at::Tensor& gradient, double lr) {
    ++count;
    const auto squares = gradient * gradient + 1e-30;
    at::Tensor update;
    if (x.dim() > 1) {
      average(row, squares.mean(-1));
      average(column, squares.mean(-2));
      const auto by_row = (row / row.mean(-1, true)).rsqrt().unsqueeze(-1);
      update = by_row * column.unsqueeze(-2).rsqrt() * gradient;
    } else {
      average(all, squares);
      update = all.rsqrt() * gradient;
    }
    update = update / std::max(1.0, rms(update) / clip);
    x = x - update * (lr * std::max(1e-3, rms(x)));
  }
};

}  // namespace

TEST_CASE("Adafactor follows its formula, with the scale of gradients, of parameters and the limit of updates") {
  const double clip = GENERATE(1.0, 0.3);
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    Rig rig(communicator, {.optimizer = rule({{"clip_threshold", clip}})});
    std::map<std::string, Reference> references;
    for (const auto& stored : rig.engine->stored_boxes()) {
      if (stored.record->trainable)
        references.emplace(stored.record->name, Reference{stored.value.view(stored.box.size).clone(), clip});
    }
    for (int step = 0; step < 4; ++step) {
      rig.micro_step(0, tiny_batch(step));
      constexpr double scale = 4;
      for (const auto& stored : rig.engine->gradient_boxes())
        references.at(stored.record->name).step(stored.value.view(stored.box.size) / scale, 0.05);
      rig.engine->update(
          0.05, {at::full({}, step + 1, at::kDouble), at::full({}, scale, at::kFloat), at::zeros({}, at::kFloat)});
      for (const auto& stored : rig.engine->stored_boxes()) {
        if (!stored.record->trainable) continue;
        INFO("step " << step << ", " << stored.record->name);
        CHECK(at::allclose(stored.value.view(stored.box.size), references.at(stored.record->name).x, 0, 1e-13));
      }
    }
  });
}

TEST_CASE("Adafactor keeps what an optimizer promises") {
  CHECK(optimizer_breaches([] { return rule(); }) == "");
}

}  // namespace adafactor_test
