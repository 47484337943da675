#include "step/wrap_unit.h"

#include <capstan/base/text.h>
#include <capstan/comm/communicator.h>
#include "plugin/guard.h"

#include <memory>
#include <string>
#include <utility>

namespace capstan::step {
namespace {

// A strategy's hooks, for the runner, which calls them without knowing whose they are.
class NamedHooks : public strategy::UnitHooks {
 public:
  NamedHooks(std::string plugin, std::string unit, std::unique_ptr<strategy::UnitHooks> hooks)
      : plugin_(std::move(plugin)), unit_(std::move(unit)), hooks_(std::move(hooks)) {}
  void before_forward() override { call("before_forward", &strategy::UnitHooks::before_forward); }
  void after_forward() override { call("after_forward", &strategy::UnitHooks::after_forward); }
  void before_backward() override { call("before_backward", &strategy::UnitHooks::before_backward); }
  void after_backward() override { call("after_backward", &strategy::UnitHooks::after_backward); }
  void after_weight_gradients() override {
    call("after_weight_gradients", &strategy::UnitHooks::after_weight_gradients);
  }
  void end_backward() override { call("end_backward", &strategy::UnitHooks::end_backward); }

 private:
  void call(const char* phase, void (strategy::UnitHooks::*hook)()) const {
    try {
      ((*hooks_).*hook)();
    } catch (const comm::PeerFailed&) {
      throw;  // where this rank waited says nothing about it
    } catch (...) {
      plugin::rethrow_with_context(cat("plugin '", plugin_, "' was in phase ", phase, " of unit ", unit_));
    }
  }

  std::string plugin_;
  std::string unit_;
  std::unique_ptr<strategy::UnitHooks> hooks_;
};

}  // namespace

void wrap_unit(const job::Strategies& strategies, std::size_t index, UnitRunner& runner) {
  auto& unit = *runner.units().at(index);
  for (const auto& made : strategies) {
    plugin::guard(made.name, cat("wrap of unit ", unit.name()), [&] {
      auto hooks = made.object->wrap(unit);
      if (hooks) runner.add_hooks(index, std::make_unique<NamedHooks>(made.name, unit.name(), std::move(hooks)));
    });
    plugin::guard(made.name, cat("recompute of unit ", unit.name()), [&] {
      if (made.object->recompute(unit, runner.stages().place_of(index))) runner.set_recompute(index, true);
    });
  }
}

}  // namespace capstan::step
