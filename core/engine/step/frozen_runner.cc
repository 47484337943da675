#include "step/frozen_runner.h"

#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

namespace capstan::step {

// Ends the unit's forward later, if it is told to.
class FrozenRunner::Held : public strategy::UnitHooks {
 public:
  explicit Held(std::unique_ptr<strategy::UnitHooks> hooks) : hooks_(std::move(hooks)) {}
  void before_forward() override { hooks_->before_forward(); }
  void after_forward() override {
    is_open_ = true;
    if (!holds_) release();
  }
  void hold(bool holds) { holds_ = holds; }
  void release() {
    if (std::exchange(is_open_, false)) hooks_->after_forward();
  }

 private:
  std::unique_ptr<strategy::UnitHooks> hooks_;
  bool holds_ = false;
  bool is_open_ = false;
};

FrozenRunner::FrozenRunner(const std::vector<nn::Unit*>& units, std::string plugin)
    : runner_(units, std::move(plugin)) {}

FrozenRunner::~FrozenRunner() = default;

void FrozenRunner::add_hooks(std::size_t unit, std::unique_ptr<strategy::UnitHooks> hooks) {
  if (unit + 1 < runner_.units().size()) return runner_.add_hooks(unit, std::move(hooks));
  auto held = std::make_unique<Held>(std::move(hooks));
  held_.push_back(held.get());
  runner_.add_hooks(unit, std::move(held));
}

at::Tensor FrozenRunner::forward(const nn::Batch& batch) {
  release();
  for (auto* held : held_) held->hold(batch.pass.output == nn::HeadOutput::states);
  const at::NoGradGuard no_grad;
  return runner_.forward(batch).states;
}

const nn::VocabularyHead& FrozenRunner::head() const {
  const auto& last = *runner_.units().back();
  const auto heads = last.all<nn::VocabularyHead>();
  if (heads.size() == 1) return *heads.front();
  throw Error(cat("the objective needs the matrix of an nn::VocabularyHead in unit ", last.name(), ", which has ",
                  heads.size(), " of them"),
              "take a model with such a head, or an objective that compares some words only");
}

void FrozenRunner::release() {
  const at::NoGradGuard no_grad;  // what follows the units is told that no backward comes
  std::for_each(held_.rbegin(), held_.rend(), [](auto* held) { held->release(); });
}

}  // namespace capstan::step
