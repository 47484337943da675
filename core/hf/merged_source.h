#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/source.h>
#include <capstan/nn/adapter.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// Base values with adapters merged in: W + scale · B A, computed in float32 (float64 for float64).
class MergedSource : public layout::Source {
 public:
  /// Both sources and the adapters outlive it.
  MergedSource(layout::Source& base, layout::Source& trained, const std::vector<const nn::Adapter*>& adapters);
  bool has(const layout::Param& param) const override;
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override;

 private:
  struct Beside {
    const nn::Adapter* adapter;
    std::size_t part;  ///< the adapter's part for this record
  };
  at::Tensor added(const Beside& beside, const layout::Box& box, at::ScalarType type) const;
  layout::Source& base_;
  layout::Source& trained_;
  std::map<std::string, std::vector<Beside>> adapted_;
};

}  // namespace hf
CAPSTAN_END_NAMESPACE
