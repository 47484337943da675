#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/footprint.h>
#include <capstan/strategy/step_hooks.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// Strategies' own tensors: made when first asked for, kept from step to step, saved with a checkpoint. Those of this
/// rank have names "plugin/bucket or step/name"; those of records are named "plugin/name".
class StateStore {
 public:
  explicit StateStore(c10::Device device);
  ~StateStore();
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  /// What a strategy asks; `scope` is a bucket, or "step". The store must outlive it.
  strategy::State& of(const std::string& plugin, const std::string& scope);

  /// The boxes of records that this rank updates: of_part() takes no others, since a checkpoint saves these.
  void hold(const std::vector<strategy::StepPart>& parts);

  /// What the tensors take, a line "PLUGIN state" for each strategy and kind of memory.
  std::vector<layout::Footprint> footprints() const;

  using ByRecord = std::map<std::string, at::Tensor>;
  /// What a checkpoint saves: this rank's own, and boxes of records, [box.numel()] each.
  std::map<std::string, at::Tensor> own() const;
  std::map<std::string, ByRecord> of_records() const;
  /// Gives back what a checkpoint has, in host memory until it is asked for.
  void put_own(const std::string& name, const at::Tensor& value);
  void put_of_record(const std::string& name, const std::string& record, const at::Tensor& value);
  /// Notes that a checkpoint has it, though perhaps no box of this rank.
  void put_name(const std::string& name) { (void)of_records_[name]; }

 private:
  class View;
  struct Entry {
    at::Tensor value;
    bool is_placed = false;  ///< on the device that was asked for
  };
  at::Tensor take(Entry& entry, const std::string& name, at::IntArrayRef shape, const at::TensorOptions& options) const;

  c10::Device device_;
  std::map<std::string, Entry> own_;
  std::map<std::string, std::map<std::string, Entry>> of_records_;
  std::map<std::string, layout::Box> held_;  ///< by record
  std::map<std::string, std::unique_ptr<View>> views_;
};

}  // namespace step
CAPSTAN_END_NAMESPACE
