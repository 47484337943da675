#include "step/tracing.h"

#include <algorithm>

namespace capstan::step {
namespace {

class UnitSpans final : public strategy::UnitHooks {
 public:
  UnitSpans(std::shared_ptr<monitor::Tracer> tracer, std::string unit)
      : tracer_(std::move(tracer)), unit_(std::move(unit)) {}
  void before_forward() override { tracer_->begin(monitor::Span::forward, unit_); }
  void after_forward() override { tracer_->end(monitor::Span::forward, unit_); }
  void before_backward() override { tracer_->begin(monitor::Span::backward, unit_); }
  void after_backward() override { tracer_->end(monitor::Span::backward, unit_); }

 private:
  std::shared_ptr<monitor::Tracer> tracer_;
  std::string unit_;
};

}  // namespace

void Tracers::begin(monitor::Span kind, std::string_view name) noexcept {
  for (const auto& tracer : all_) tracer->begin(kind, name);
}

void Tracers::end(monitor::Span kind, std::string_view name) noexcept {
  for (const auto& tracer : all_) tracer->end(kind, name);
}

bool Tracers::units() const {
  return std::any_of(all_.begin(), all_.end(), [](const auto& tracer) { return tracer->units(); });
}

void trace_units(step::UnitRunner& runner, const std::shared_ptr<monitor::Tracer>& tracer) {
  for (std::size_t i = 0; i < runner.units().size(); ++i)
    runner.add_hooks(i, std::make_unique<UnitSpans>(tracer, runner.units()[i]->name()));
}

}  // namespace capstan::step
