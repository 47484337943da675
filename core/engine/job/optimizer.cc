#include "job/assemble.h"

#include <capstan/base/text.h>
#include <capstan/optimizer/joint.h>
#include "plugin/guard.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace capstan::job {
namespace {

// A plugin's joint update with its name around errors.
class GuardedJointUpdate : public optimizer::JointUpdate {
 public:
  GuardedJointUpdate(std::string plugin, std::unique_ptr<optimizer::JointUpdate> update)
      : plugin_(std::move(plugin)), update_(std::move(update)) {}
  bool takes(const layout::Param& record) const override { return update_->takes(record); }
  std::vector<optimizer::JointState> states() const override {
    return plugin::guard(plugin_, "states of its joint update", [&] { return update_->states(); });
  }
  optimizer::JointCost cost() const override {
    return plugin::guard(plugin_, "cost of its joint update", [&] { return update_->cost(); });
  }
  void run(optimizer::JointStep& step, const std::vector<at::Tensor>& states) override {
    plugin::guard(plugin_, "joint update", [&] { update_->run(step, states); });
  }

 private:
  std::string plugin_;
  std::unique_ptr<optimizer::JointUpdate> update_;
};

// A plugin's rule with its name around errors.
class GuardedRule : public optimizer::Rule {
 public:
  explicit GuardedRule(const Made<optimizer::Rule>& made) : plugin_(made.name), rule_(made.object) {}
  std::vector<optimizer::StateSpec> states(const layout::Param& record) const override {
    return plugin::guard(plugin_, "states of " + record.name, [&] {
      auto states = rule_->states(record);
      for (const auto& state : states) check_blocks(state, record);
      return states;
    });
  }
  optimizer::Grain grain() const override { return rule_->grain(); }
  bool is_fused() const override { return rule_->is_fused(); }
  std::unique_ptr<optimizer::JointUpdate> joint(const optimizer::Sharing& sharing) override {
    auto update = plugin::guard(plugin_, "joint", [&] { return rule_->joint(sharing); });
    return update ? std::make_unique<GuardedJointUpdate>(plugin_, std::move(update)) : nullptr;
  }
  std::string why_useless(const std::vector<const layout::Param*>& records) const override {
    return plugin::guard(plugin_, "why_useless", [&] { return rule_->why_useless(records); });
  }
  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& update) override {
    plugin::guard(plugin_, "apply", [&] { rule_->apply(slices, update); });
  }
  std::vector<at::Tensor> unpacked(const layout::Param& record, const std::vector<at::Tensor>& state) const override {
    return plugin::guard(plugin_, "unpacked of " + record.name, [&] { return rule_->unpacked(record, state); });
  }
  void pack(const layout::Param& record, const std::vector<at::Tensor>& values,
            const std::vector<at::Tensor>& state) const override {
    plugin::guard(plugin_, "pack of " + record.name, [&] { rule_->pack(record, values, state); });
  }

 private:
  // Parts of a weight may begin anywhere in a block.
  void check_blocks(const optimizer::StateSpec& state, const layout::Param& record) const {
    if (state.block >= 1 && (state.block == 1 || grain() == optimizer::Grain::record)) return;
    throw Error(cat("its state '", state.name, "' of '", record.name, "' has blocks of ", state.block, " elements"),
                state.block < 1 ? "give 1 or more" : "let the rule's grain() be Grain::record");
  }

  std::string plugin_;
  std::shared_ptr<optimizer::Rule> rule_;
};

void check_patterns(const OptimizerGroupTable& group, const std::vector<const layout::Param*>& records,
                    Diagnostics& faults) {
  constexpr std::size_t shown = 3;
  std::vector<std::string> names;
  for (const auto* record : records) names.push_back(record->name);
  for (const auto& pattern : group.options->records) {
    const auto is_match = [&](const std::string& name) { return strategy::matches(pattern, name); };
    if (std::any_of(names.begin(), names.end(), is_match)) continue;
    auto some = names;
    some.resize(std::min(some.size(), shown));
    faults.add(group.options.where(&setup::OptimizerGroupOptions::records),
               cat(group.table, ".records has \"", pattern, "\", which is the name of no parameter"),
               cat("* stands for any characters; parameters have names such as ", join(some)));
  }
}

// A rule that is to train what it leaves as it is would act on nothing in silence.
void check_use(const Made<optimizer::Rule>& made, const optimizer::Rule& rule, const strategy::Optimizer& all,
               const std::vector<const layout::Param*>& records, Diagnostics& faults) {
  std::vector<const layout::Param*> own;
  std::copy_if(records.begin(), records.end(), std::back_inserter(own),
               [&](const layout::Param* record) { return record->trainable && all.of(*record).rule.get() == &rule; });
  const auto why = rule.why_useless(own);
  if (why.empty()) return;
  faults.add(made.where, cat("the optimizer '", made.name, "' has no effect: ", why),
             cat("choose another, or let it take what is trained: see `capstan plugins ", made.name, "`"));
}

// So would a group of which nothing is trained. (An evaluation trains nothing at all.)
void check_reach(const strategy::Optimizer& all, const Plugins& plugins,
                 const std::vector<const layout::Param*>& records, Diagnostics& faults) {
  for (std::size_t i = 0; i < plugins.optimizer_groups.size(); ++i) {
    const auto& table = plugins.optimizer_groups[i];
    const auto& group = all.groups()[i];
    bool any = false, trained = false;
    for (const auto* record : records) {
      if (&all.of(*record) == &group) (record->trainable ? trained : any) = true;
    }
    if (trained && table.rule) check_use(*table.rule, *group.rule, all, records, faults);
    if (trained) continue;
    faults.add(table.options.where(&setup::OptimizerGroupOptions::records),
               cat(group.name, " has no effect: all parameters that it names ",
                   any ? "are frozen" : "belong to groups before it"),
               "remove it, or name parameters that are trained");
  }
  check_use(*plugins.optimizer, *all.groups().back().rule, all, records, faults);
}

}  // namespace

std::shared_ptr<const strategy::Optimizer> make_optimizer(const setup::OptimizerOptions& options,
                                                          const Plugins& plugins,
                                                          const std::vector<const layout::Param*>& records) {
  CAPSTAN_ASSERT(plugins.optimizer);
  const auto rule = std::make_shared<GuardedRule>(*plugins.optimizer);
  std::vector<strategy::OptimizerGroup> groups;
  Diagnostics faults;
  for (const auto& table : plugins.optimizer_groups) {
    check_patterns(table, records, faults);
    strategy::OptimizerGroup group{table.table, table.options->records, rule, table.options->lr_factor,
                                   table.options->weight_decay};
    if (table.rule) group.rule = std::make_shared<GuardedRule>(*table.rule);
    groups.push_back(std::move(group));
  }
  faults.throw_if_any();
  groups.push_back({"optimizer", {}, rule});
  const auto made =
      std::make_shared<strategy::Optimizer>(std::move(groups), options.weight_decay, options.decay == "all");
  if (std::any_of(records.begin(), records.end(), [](const auto* record) { return record->trainable; }))
    check_reach(*made, plugins, records, faults);
  faults.throw_if_any();
  return made;
}

}  // namespace capstan::job
