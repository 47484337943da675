#include <ATen/ATen.h>
#include <capstan/strategy.h>
#include <capstan/testing.h>

#include "testing/tiny.h"

namespace capstan::testing {
namespace {

struct DescentOptions {
  static void describe(config::OptionTable<DescentOptions>&) {}
};

class DescentRule : public strategy::OptimizerRule {
 public:
  std::size_t states() const override { return 0; }
  void apply(std::vector<strategy::Slice>& slices, const strategy::Update& update) override {
    for (auto& slice : slices) slice.master.sub_(slice.grad, update.lr);
  }
};

class Descent : public strategy::Strategy {
 public:
  explicit Descent(const config::Options<DescentOptions>&) {}
  void claim(strategy::Claims& claims) const override { claims.exclusive(strategy::optimizer_rule_point); }
  std::unique_ptr<strategy::OptimizerRule> optimizer_rule(const strategy::AdamWOptions&) override {
    return std::make_unique<DescentRule>();
  }
};

}  // namespace

plugin::Registration descent() { return type<strategy::Strategy, Descent, DescentOptions>("strategy", "descent"); }

}  // namespace capstan::testing
