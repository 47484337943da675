#include "train/observers.h"

#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include "plugin/guard.h"

#include <algorithm>
#include <cmath>

namespace capstan::train {
namespace {

std::string summary_text(const monitor::Summary& summary) {
  Json json{{"values", Json::array()}, {"texts", Json::array()}};
  for (const auto& [name, value] : summary.values) {
    if (std::isfinite(value)) json["values"].push_back({name, value});
  }
  for (const auto& [name, text] : summary.texts) json["texts"].push_back({name, text});
  return json.dump();
}

}  // namespace

template <class Call>
void Observers::each(const char* phase, const Call& call) {
  for (auto& observer : all_) {
    if (observer.plugin.empty()) {
      call(*observer.object);
      continue;
    }
    if (observer.disabled) continue;
    try {
      plugin::guard(observer.plugin, phase, [&] { call(*observer.object); });
    } catch (const std::exception& error) {
      observer.disabled = true;
      log::warning(cat("monitor '", observer.plugin,
                       "' is disabled on this rank from now on, the run continues: ", error.what()));
    }
  }
}

void Observers::run_started(const monitor::RunStarted& event) {
  started_ = true;
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

monitor::Summary Observers::summary(const monitor::RunEnded& event) {
  monitor::Summary all;
  each("summary", [&](monitor::Monitor& observer) {
    auto one = observer.summary(event);
    all.values.insert(all.values.end(), one.values.begin(), one.values.end());
    all.texts.insert(all.texts.end(), one.texts.begin(), one.texts.end());
  });
  return all;
}

std::vector<std::shared_ptr<monitor::Tracer>> Observers::tracers() {
  std::vector<std::shared_ptr<monitor::Tracer>> all;
  each("tracer", [&](monitor::Monitor& observer) {
    if (auto tracer = observer.tracer()) all.push_back(std::move(tracer));
  });
  return all;
}

void Observers::run_ended(const monitor::RunEnded& event) {
  each("run_ended", [&](monitor::Monitor& observer) { observer.run_ended(event); });
}

void Observers::run_failed(const monitor::RunFailed& event) {
  if (started_) each("run_failed", [&](monitor::Monitor& observer) { observer.run_failed(event); });
}

monitor::Summary exchange_summary(const monitor::Summary& mine, comm::Communicator& communicator) {
  monitor::Summary all;
  std::vector<double> counts;
  for (const auto& text : communicator.exchange(summary_text(mine))) {
    const auto json = Json::parse(text);
    for (const auto& pair : json.at("values")) {
      const auto name = pair.at(0).get<std::string>();
      const auto found =
          std::find_if(all.values.begin(), all.values.end(), [&](const auto& value) { return value.first == name; });
      const auto at = static_cast<std::size_t>(found - all.values.begin());
      if (found == all.values.end()) {
        all.values.emplace_back(name, 0.0);
        counts.push_back(0);
      }
      all.values[at].second += pair.at(1).get<double>();
      ++counts[at];
    }
    for (const auto& pair : json.at("texts")) {
      const auto name = pair.at(0).get<std::string>();
      const bool known =
          std::any_of(all.texts.begin(), all.texts.end(), [&](const auto& other) { return other.first == name; });
      if (!known) all.texts.emplace_back(name, pair.at(1).get<std::string>());
    }
  }
  for (std::size_t i = 0; i < counts.size(); ++i) all.values[i].second /= counts[i];
  return all;
}

}  // namespace capstan::train
