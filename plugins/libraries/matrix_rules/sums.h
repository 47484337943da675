#pragma once
#include <capstan/matrix_rules/summing_rule.h>
#include <capstan/optimizer/joint.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace capstan::matrix_rules {

/// A record with sums, as this rank takes part in them.
struct SummedRecord {
  optimizer::SharedRecord shared;
  layout::Box box;                                     ///< this rank's
  bool is_measured = false;                            ///< this rank gives the terms of its box
  std::vector<std::vector<Kept>> sums = {};            ///< by pass
  std::vector<std::vector<std::int64_t>> places = {};  ///< where each begins in the memory of its pass
  std::vector<RecordState> states = {};
  bool is_saved = false;  ///< this rank saves its states
};

/// Updates records of which a rule needs sums: each pass measures this rank's boxes, one all-reduce adds up what all
/// ranks have measured of all records, and when all passes are done the rule updates its slices.
class SumUpdate final : public optimizer::JointUpdate {
 public:
  SumUpdate(SummingRule& rule, const optimizer::Sharing& sharing);
  bool is_empty() const { return records_.empty(); }
  bool takes(const layout::Param& record) const override;
  std::vector<optimizer::JointState> states() const override;
  optimizer::JointCost cost() const override;
  void run(optimizer::JointStep& step, const std::vector<at::Tensor>& states) override;

 private:
  /// The memory of a pass's sums; the same numbers once more in host memory, where a slice there needs them.
  struct Memory {
    at::Tensor on_device;
    at::Tensor on_host;
  };
  void add(const optimizer::SharedRecord& shared, int position);
  SummedSlice slice_of(std::size_t number, optimizer::JointStep& step, const std::vector<Memory>& passes,
                       const std::vector<at::Tensor>& states) const;
  void measure(std::size_t pass, const SummedRecord& one, const SummedSlice& slice, optimizer::JointStep& step,
               const at::Tensor& memory) const;
  Memory summed(const at::Tensor& memory, optimizer::JointStep& step) const;

  SummingRule& rule_;
  c10::ScalarType master_;
  c10::ScalarType dtype_;
  c10::DeviceType device_;
  bool any_on_host_ = false;
  std::vector<SummedRecord> records_;
  std::vector<std::size_t> first_state_;  ///< by record: its first one's place in states()
  std::vector<std::int64_t> elements_;    ///< by pass: of all records' sums
};

}  // namespace capstan::matrix_rules
