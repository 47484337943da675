#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/source.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// Fills parameters with their initial values, keyed by (seed, record name, element): the same whatever the layout.
class InitSource : public layout::Source {
 public:
  explicit InitSource(std::uint64_t seed) : seed_(seed) {}
  bool has(const layout::Param&) const override { return true; }
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override;

 private:
  std::uint64_t seed_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
