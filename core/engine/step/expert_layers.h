#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/experts.h>
#include <capstan/nn/model.h>

#include <cstdint>
#include <memory>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// The model's layers of experts, counted along its whole chain, whichever rank computes them: what a step's numbers
/// are indexed by.
class ExpertLayers {
 public:
  explicit ExpertLayers(const std::vector<std::unique_ptr<nn::Unit>>& model) {
    for (const auto& unit : model) {
      units_.push_back({unit.get(), count_});
      count_ += static_cast<std::int64_t>(unit->all<nn::Experts>().size());
      are_balanced_ = are_balanced_ || !unit->all<nn::LoadBalance>().empty();
    }
  }
  std::int64_t count() const { return count_; }
  /// The model has an auxiliary loss that balances their load.
  bool are_balanced() const { return are_balanced_; }
  /// The number of the unit's first layer of experts, if it has any.
  std::int64_t first_of(const nn::Unit* unit) const {
    for (const auto& one : units_) {
      if (one.unit == unit) return one.first;
    }
    return count_;
  }

 private:
  struct One {
    const nn::Unit* unit;
    std::int64_t first;
  };
  std::vector<One> units_;
  std::int64_t count_ = 0;
  bool are_balanced_ = false;
};

}  // namespace step
CAPSTAN_END_NAMESPACE
