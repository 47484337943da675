#include "recorder.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <capstan/base/error.h>
#include <capstan/base/log.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <charconv>

namespace trace {

using namespace capstan;
using monitor::Span;

namespace profiler = torch::autograd::profiler;
namespace impl = torch::profiler::impl;

namespace {

impl::ProfilerConfig kineto() { return impl::ProfilerConfig(impl::ProfilerState::KINETO); }

std::set<impl::ActivityType> activities(int gpu) {
  std::set<impl::ActivityType> all{impl::ActivityType::CPU};
  if (gpu >= 0) all.insert(impl::ActivityType::CUDA);
  return all;
}

}  // namespace

void TraceOptions::describe(config::OptionTable<TraceOptions>& t) {
  t.add("steps", &TraceOptions::steps).doc("steps to record, from 0; those that follow one another share a file");
  t.add("ranks", &TraceOptions::ranks).doc("ranks that record");
  t.add("units", &TraceOptions::units)
      .doc(
          "record each unit's forward and backward, for which micro-steps do not run as CUDA graphs; false: they may, "
          "and kernels belong to no unit");
}

std::string span_text(Span kind, std::string_view name) {
  switch (kind) {
    case Span::step:
      return cat("step ", name);
    case Span::forward:
      return cat("forward ", name);
    case Span::backward:
      return cat("backward ", name);
    case Span::optimizer:
      return "optimizer";
    case Span::evaluation:
      return "evaluation";
    case Span::collective:
      break;
  }
  return std::string(name);
}

Recorder::Recorder(TraceOptions options, std::filesystem::path folder, std::string name, int gpu)
    : steps_(std::move(options.steps)),
      units_(options.units),
      folder_(std::move(folder)),
      name_(std::move(name)),
      gpu_(gpu) {}

Recorder::~Recorder() {
  try {
    finish();
  } catch (const std::exception& error) {
    log::warning(cat("a trace is lost: ", error.what()));
  }
}

void Recorder::start(std::int64_t step) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw FileError(folder_, "make", error.value());
  profiler::prepareProfiler(kineto(), activities(gpu_));
  // On the CPU only spans are recorded: operators would cost more than they tell.
  profiler::enableProfiler(kineto(), activities(gpu_), {at::RecordScope::USER_SCOPE});
  first_ = step;
  records_ = true;
}

void Recorder::finish() {
  if (!records_) return;
  records_ = false;
  {
    const std::lock_guard guard(mutex_);
    open_.clear();
  }
  if (gpu_ >= 0) c10::impl::VirtualGuardImpl(c10::kCUDA).synchronizeDevice(static_cast<c10::DeviceIndex>(gpu_));
  const auto result = profiler::disableProfiler();
  const auto file = folder_ / cat(name_, "-step-", first_, ".json");
  result->save(file.string());
  if (!is_file(file)) {
    throw Error("the trace could not be written", "look for a full disk or a folder that may not be written to",
                file.string());
  }
  files_.push_back(file);
}

void Recorder::step_begins(std::string_view name) {
  std::int64_t step = -1;
  std::from_chars(name.data(), name.data() + name.size(), step);
  const bool chosen = std::find(steps_.begin(), steps_.end(), step) != steps_.end();
  if (records_ && !chosen) finish();
  if (!records_ && chosen) start(step);
}

void Recorder::begin(Span kind, std::string_view name) noexcept {
  try {
    if (kind == Span::step) step_begins(name);
    if (kind == Span::evaluation) finish();
    if (!records_) return;
    auto span = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
    if (!span->isActive()) return;  // a thread that is not the training's
    span->before(span_text(kind, name));
    const std::lock_guard guard(mutex_);
    open_[{kind, std::string(name)}] = std::move(span);
  } catch (const std::exception& error) {
    records_ = false;
    steps_.clear();
    log::warning(cat("no trace is recorded from here on: ", error.what()));
  }
}

void Recorder::end(Span kind, std::string_view name) noexcept {
  if (!records_) return;
  try {
    const std::lock_guard guard(mutex_);
    open_.erase({kind, std::string(name)});
  } catch (const std::exception& error) {
    log::warning(cat("a span of the trace has no end: ", error.what()));
  }
}

}  // namespace trace
