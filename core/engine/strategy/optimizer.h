#pragma once
#include <capstan/base/export.h>
#include <capstan/optimizer/rule.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace strategy {

/// Records that one rule updates in one way.
struct OptimizerGroup {
  std::string name;                   ///< its table, "optimizer.groups.1"; the last group is "optimizer"
  std::vector<std::string> patterns;  ///< its records' names fit one, with * and ?; the last group takes all others
  std::shared_ptr<optimizer::Rule> rule;
  double lr_factor = 1;
  std::optional<double> weight_decay = {};  ///< all its records', vectors too; nothing: [optimizer]'s
};

/// How a run's parameters are updated: the rules, and which records each one updates. It never changes.
class Optimizer {
 public:
  /// The last group takes the records that no other does. `decays_all`: vectors too, which Param::decay leaves out.
  Optimizer(std::vector<OptimizerGroup> groups, double weight_decay, bool decays_all);
  /// One rule for all records, without weight decay.
  explicit Optimizer(std::shared_ptr<optimizer::Rule> rule);

  const std::vector<OptimizerGroup>& groups() const { return groups_; }
  /// The groups' rules, each once.
  std::vector<optimizer::Rule*> rules() const;
  /// The first group that has a pattern for the record's name.
  const OptimizerGroup& of(const layout::Param& record) const;
  double weight_decay(const layout::Param& record) const;
  /// Is the weight one slice? Its rule updates elements, and all of its records alike.
  bool is_one_slice(const nn::Weight& weight) const;

 private:
  std::vector<OptimizerGroup> groups_;
  double weight_decay_ = 0;
  bool decays_all_ = false;
};

/// The update's scalars for slices in host memory: copies, which wait for the device.
optimizer::Update in_host_memory(const optimizer::Update& update);

/// Does the pattern match all of the name? * stands for any characters, dots too, and ? for one.
bool matches(const std::string& pattern, const std::string& name);

}  // namespace strategy
CAPSTAN_END_NAMESPACE
