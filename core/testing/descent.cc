#include <ATen/ATen.h>
#include <capstan/optimizer.h>
#include <capstan/testing.h>

#include "testing/tiny.h"

namespace capstan::testing {
namespace {

struct DescentOptions {
  static void describe(config::OptionTable<DescentOptions>&) {}
};

class Descent : public optimizer::Rule {
 public:
  explicit Descent(const config::Options<DescentOptions>&) {}
  std::vector<optimizer::StateSpec> states(const layout::Param&) const override { return {}; }
  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update&) override {
    for (auto& slice : slices) slice.master.sub_(slice.grad, slice.lr);
  }
};

}  // namespace

plugin::Registration descent() { return type<optimizer::Rule, Descent, DescentOptions>("optimizer", "descent"); }

}  // namespace capstan::testing
