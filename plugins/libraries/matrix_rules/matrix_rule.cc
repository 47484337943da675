#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/matrix_rules/matrix_rule.h>

#include <algorithm>
#include <utility>

#include "rounds.h"

namespace capstan::matrix_rules {
namespace {

// A matrix's part is a box of a slice, which would cut blocks anywhere.
void refuse_blocks(const MatrixRule& rule, const layout::Param& record) {
  for (const auto& state : rule.states(record)) {
    if (state.block == 1) continue;
    throw Error(cat("its state '", state.name, "' of '", record.name, "' has blocks of ", state.block,
                    " elements, and it needs this record's matrices whole"),
                "let a state have one element for each of the record's");
  }
}

}  // namespace

std::vector<WholeRecord> whole_records(const MatrixRule& rule, const optimizer::Sharing& sharing) {
  std::vector<WholeRecord> records;
  for (const auto& shared : sharing.records) {
    if (shared.record->shape.size() < 2) continue;
    auto spec = rule.whole_spec(*shared.record, sharing.master, sharing.device);
    if (!spec) continue;
    refuse_blocks(rule, *shared.record);
    records.push_back({shared, std::move(*spec)});
  }
  return records;
}

std::unique_ptr<optimizer::JointUpdate> MatrixRule::joint(const optimizer::Sharing& sharing) {
  auto rounds = plan_matrices(whole_records(*this, sharing), sharing.position, most_whole_);
  return rounds.empty() ? nullptr : std::make_unique<MatrixUpdate>(*this, std::move(rounds), sharing.device);
}

// A rule for matrices that gets none would act on nothing in silence.
std::string MatrixRule::why_useless(const std::vector<const layout::Param*>& records) const {
  const bool takes_any = std::any_of(records.begin(), records.end(), [&](const layout::Param* record) {
    return record->shape.size() > 1 && whole_spec(*record, c10::ScalarType::Float, c10::DeviceType::CPU);
  });
  return takes_any ? "" : "nothing that it trains is a matrix for it";
}

}  // namespace capstan::matrix_rules
