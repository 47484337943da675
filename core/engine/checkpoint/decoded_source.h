#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/source.h>
#include <capstan/nn/codec.h>
#include <capstan/nn/model.h>

#include <map>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// Values as a run computes with them: those of a frozen weight that a codec keeps are rounded to the run's compute
/// dtype, encoded and decoded.
class DecodedSource : public layout::Source {
 public:
  /// `values` and the units outlive it. `fix`: what to do where `values` lacks a record.
  DecodedSource(layout::Source& values, const std::vector<nn::Unit*>& units, c10::ScalarType compute,
                std::string fix = {});

  bool has(const layout::Param& param) const override { return values_.has(param); }
  /// Where a codec keeps a record, only whole matrices can be asked for. Throws Error where `values` lacks one.
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override;

 private:
  layout::Source& values_;
  c10::ScalarType compute_;                         ///< the dtype that values are rounded to before they are encoded
  std::string fix_;                                 ///< what to do where `values_` lacks a record
  std::map<std::string, const nn::Codec*> codecs_;  ///< by record
};

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
