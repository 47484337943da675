#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/tracer.h>
#include "step/unit_runner.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// A tracer that passes on to several what it is told.
class Tracers final : public monitor::Tracer {
 public:
  explicit Tracers(std::vector<std::shared_ptr<monitor::Tracer>> all) : all_(std::move(all)) {}
  void begin(monitor::Span kind, std::string_view name) noexcept override;
  void end(monitor::Span kind, std::string_view name) noexcept override;
  bool units() const override;

 private:
  std::vector<std::shared_ptr<monitor::Tracer>> all_;
};

/// A span for as long as it lives; none without a tracer.
class Traced {
 public:
  Traced(monitor::Tracer* tracer, monitor::Span kind, std::string name)
      : tracer_(tracer), kind_(kind), name_(std::move(name)) {
    if (tracer_) tracer_->begin(kind_, name_);
  }
  ~Traced() {
    if (tracer_) tracer_->end(kind_, name_);
  }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

 private:
  monitor::Tracer* tracer_;
  monitor::Span kind_;
  std::string name_;
};

/// Forward and backward of each unit are spans from now on.
void trace_units(step::UnitRunner& runner, const std::shared_ptr<monitor::Tracer>& tracer);

}  // namespace step
CAPSTAN_END_NAMESPACE
