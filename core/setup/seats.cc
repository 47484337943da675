#include "setup/seats.h"

#include <capstan/base/text.h>
#include <capstan/plugin/guard.h>

#include <utility>

#include "setup/adamw.h"
#include "setup/assemble.h"

namespace capstan::setup {
namespace {

// A strategy's rule with its name around errors.
class GuardedRule : public strategy::OptimizerRule {
 public:
  GuardedRule(std::string plugin, std::unique_ptr<strategy::OptimizerRule> rule)
      : plugin_(std::move(plugin)), rule_(std::move(rule)) {}
  std::size_t states() const override { return rule_->states(); }
  std::string state_name(std::size_t i) const override { return rule_->state_name(i); }
  bool is_elementwise() const override { return rule_->is_elementwise(); }
  bool is_fused() const override { return rule_->is_fused(); }
  void apply(std::vector<strategy::Slice>& slices, const strategy::Update& update) override {
    plugin::guard(plugin_, "optimizer rule", [&] { rule_->apply(slices, update); });
  }

 private:
  std::string plugin_;
  std::unique_ptr<strategy::OptimizerRule> rule_;
};

bool claims(const strategy::Strategy& strategy, const std::string& seat) {
  strategy::Claims claims;
  strategy.claim(claims);
  const auto& list = claims.exclusive_claims();
  return std::find(list.begin(), list.end(), seat) != list.end();
}

[[noreturn]] void empty_seat(const Made<strategy::Strategy>& made, const std::string& seat, const std::string& method) {
  throw Error(cat("plugin '", made.name, "' claims the seat '", seat, "', but its ", method, "() returns nothing"),
              cat("return an object from ", method, "(), or don't claim the seat"), made.where);
}

}  // namespace

std::unique_ptr<strategy::OptimizerRule> optimizer_rule(const Strategies& strategies, const OptimizerOptions& options) {
  for (const auto& made : strategies) {
    if (!claims(*made.object, strategy::optimizer_rule_seat)) continue;
    std::unique_ptr<strategy::OptimizerRule> rule;
    plugin::guard(made.name, "optimizer_rule", [&] { rule = made.object->optimizer_rule(); });
    if (!rule) empty_seat(made, strategy::optimizer_rule_seat, "optimizer_rule");
    return std::make_unique<GuardedRule>(made.name, std::move(rule));
  }
  return std::make_unique<AdamW>(options);
}

void take_seats(const Strategies& strategies, Session& session, shard::EngineOptions& options) {
  for (const auto& made : strategies) {
    std::unique_ptr<strategy::StepHooks> hooks;
    plugin::guard(made.name, "step", [&] { hooks = made.object->step(); });
    for (const auto axis : {layout::Axis::dp, layout::Axis::replicate}) {
      const auto seat = strategy::gradient_reduction_seat(axis);
      if (!claims(*made.object, seat)) continue;
      if (!hooks) empty_seat(made, seat, "step");
      options.reduce_seats[axis] = [name = made.name, axis, raw = hooks.get(),
                                    store = session.state.get()](strategy::Bucket& bucket) {
        bucket.state = store->of(cat(name, "/", bucket.name));
        plugin::guard(name, cat("reduce of ", bucket.name, " on ", axis), [&] { raw->reduce(bucket, axis); });
      };
    }
    if (hooks) session.steps.push_back({made.name, std::move(hooks)});
  }
}

}  // namespace capstan::setup
