#include "train/statistics.h"

#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace capstan::train {

namespace {

// JSON has neither nan nor inf: a loss that was not finite comes back as nan.
double number_of(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

Json json_of(const monitor::EvalEnded& eval) {
  Json json{{"step", eval.step},       {"epoch", eval.epoch_progress}, {"split", eval.split},
            {"samples", eval.samples}, {"runtime_s", eval.runtime_s},  {"scores", Json::array()}};
  if (eval.loss) json["loss"] = *eval.loss;
  for (const auto& [name, value] : eval.scores) json["scores"].push_back({name, value});
  return json;
}

monitor::EvalEnded eval_of(const Json& json) {
  monitor::EvalEnded eval;
  eval.step = json.at("step").get<std::int64_t>();
  eval.epoch_progress = json.at("epoch").get<double>();
  eval.split = json.at("split").get<std::string>();
  eval.samples = json.at("samples").get<std::int64_t>();
  eval.runtime_s = json.at("runtime_s").get<double>();
  if (json.contains("loss")) eval.loss = number_of(json.at("loss"));
  for (const auto& pair : json.at("scores")) {
    eval.scores.emplace_back(pair.at(0).get<std::string>(), number_of(pair.at(1)));
  }
  return eval;
}

}  // namespace

monitor::Values Statistics::step_ended(const monitor::StepEnded& step) {
  train_runtime_s += step.step_time_s;
  samples += step.samples;
  tokens += step.tokens;
  if (std::isfinite(step.loss)) {
    loss_total += step.loss;
    ++finite_losses;
  }
  if (step.step == 0) first_loss = step.loss;
  last_loss = step.loss;
  return {};
}

std::optional<monitor::EvalEnded> Statistics::evaluation_after(std::int64_t steps_done) const {
  std::optional<monitor::EvalEnded> whole;
  for (const auto& part : evaluations) {
    if (part.step != steps_done || part.split != "eval") continue;
    if (!whole) {
      whole = part;
      continue;
    }
    if (!whole->loss) whole->loss = part.loss;
    whole->scores.insert(whole->scores.end(), part.scores.begin(), part.scores.end());
  }
  return whole;
}

std::vector<double> Statistics::values_of(const std::string& metric) const {
  std::vector<double> values;
  for (const auto& part : evaluations) {
    if (part.split != "eval") continue;
    if (part.loss && metric == "eval_loss") values.push_back(*part.loss);
    for (const auto& [name, score] : part.scores) {
      if (metric == "eval_" + name) values.push_back(score);
    }
  }
  return values;
}

void Statistics::drop_answers(std::int64_t steps_done, const std::vector<std::string>& splits) {
  std::erase_if(evaluations, [&](const monitor::EvalEnded& evaluation) {
    const bool is_asked = std::find(splits.begin(), splits.end(), evaluation.split) != splits.end();
    return is_asked && !evaluation.loss && evaluation.step == steps_done;
  });
}

std::string Statistics::save() const {
  Json json{{"first_loss", first_loss},
            {"last_loss", last_loss},
            {"loss_total", loss_total},
            {"finite_losses", finite_losses},
            {"samples", samples},
            {"tokens", tokens},
            {"runtime_s", runtime_s},
            {"train_runtime_s", train_runtime_s},
            {"skipped_in_a_row", skipped_in_a_row},
            {"evaluations", Json::array()}};
  for (const auto& eval : evaluations) json["evaluations"].push_back(json_of(eval));
  return json.dump();
}

Statistics Statistics::restore(const std::string& text) {
  try {
    const auto json = Json::parse(text);
    Statistics statistics;
    statistics.first_loss = number_of(json.at("first_loss"));
    statistics.last_loss = number_of(json.at("last_loss"));
    statistics.loss_total = json.at("loss_total").get<double>();
    statistics.finite_losses = json.at("finite_losses").get<std::int64_t>();
    statistics.samples = json.at("samples").get<std::int64_t>();
    statistics.tokens = json.at("tokens").get<std::int64_t>();
    statistics.runtime_s = json.at("runtime_s").get<double>();
    statistics.train_runtime_s = json.at("train_runtime_s").get<double>();
    statistics.skipped_in_a_row = json.at("skipped_in_a_row").get<int>();
    for (const auto& eval : json.at("evaluations")) statistics.evaluations.push_back(eval_of(eval));
    return statistics;
  } catch (const JsonError&) {
    throw Error("the run's statistics are not what Capstan writes", "use another checkpoint");
  }
}

}  // namespace capstan::train
