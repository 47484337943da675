#include <ATen/ATen.h>
#include <capstan/matrix_rules/summing_rule.h>

#include <algorithm>
#include <utility>

#include "sums.h"

namespace capstan::matrix_rules {

at::Tensor SummedSlice::here(const at::Tensor& all, const Kept& keeps) const {
  auto view = all;
  for (std::size_t k = 0; k < keeps.size(); ++k)
    view = view.narrow(static_cast<std::int64_t>(k), box.offset[keeps[k]], box.size[keeps[k]]);
  for (std::size_t d = 0; d < box.size.size(); ++d) {
    if (std::find(keeps.begin(), keeps.end(), d) == keeps.end()) view = view.unsqueeze(static_cast<std::int64_t>(d));
  }
  return view;
}

std::vector<RecordState> SummingRule::record_states(const layout::Param& /*record*/) const { return {}; }

void SummingRule::summed(std::size_t /*pass*/, SummedSlice& /*slice*/, const optimizer::Update& /*update*/) {}

void SummingRule::apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& update) {
  for (const auto& slice : slices) {
    SummedSlice one{slice};
    finish(one, update);
  }
}

std::unique_ptr<optimizer::JointUpdate> SummingRule::joint(const optimizer::Sharing& sharing) {
  auto update = std::make_unique<SumUpdate>(*this, sharing);
  return update->is_empty() ? nullptr : std::move(update);
}

}  // namespace capstan::matrix_rules
