#pragma once
#include <capstan/strategy/unit_hooks.h>

#include <functional>
#include <string>
#include <utility>

namespace capstan::testing {

/// Calls a function at each hook.
class Probe : public strategy::UnitHooks {
 public:
  using Function = std::function<void(const std::string&)>;
  explicit Probe(Function function) : function_(std::move(function)) {}
  void before_forward() override { function_("before_forward"); }
  void after_forward() override { function_("after_forward"); }
  void before_backward() override { function_("before_backward"); }
  void after_backward() override { function_("after_backward"); }
  void end_backward() override { function_("end_backward"); }

 private:
  Function function_;
};

}  // namespace capstan::testing
