#include "record/observers.h"

#include <capstan/plugin/guard.h>

namespace capstan::record {

template <class Call>
void Observers::each(const char* phase, const Call& call) {
  for (const auto& observer : all_) {
    if (observer.plugin.empty()) {
      call(*observer.object);
    } else {
      plugin::guard(observer.plugin, phase, [&] { call(*observer.object); });
    }
  }
}

void Observers::run_started(const monitor::RunStarted& event) {
  each("run_started", [&](monitor::Monitor& observer) { observer.run_started(event); });
}

void Observers::step_ended(const monitor::StepEnded& event) {
  values_.clear();
  each("step_ended", [&](monitor::Monitor& observer) {
    auto values = observer.step_ended(event);
    values_.insert(values_.end(), values.begin(), values.end());
  });
}

void Observers::eval_ended(const monitor::EvalEnded& event) {
  each("eval_ended", [&](monitor::Monitor& observer) { observer.eval_ended(event); });
}

void Observers::checkpoint_saved(const monitor::CheckpointSaved& event) {
  each("checkpoint_saved", [&](monitor::Monitor& observer) { observer.checkpoint_saved(event); });
}

void Observers::run_ended(const monitor::RunEnded& event) {
  each("run_ended", [&](monitor::Monitor& observer) { observer.run_ended(event); });
}

}  // namespace capstan::record
