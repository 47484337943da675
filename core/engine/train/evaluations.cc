#include "train/evaluations.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

#include "generation/generation.h"

namespace capstan::train {
namespace {

constexpr std::size_t shown_of_a_split = 5;

}  // namespace

Evaluations::Evaluations(step::Session& session, const step::Feed& feed, step::StopAgreement agreement,
                         Observers& observers, RunFolder& folder)
    : session_(session),
      samples_(session.job->samples),
      options_(*session.job->config.train),
      agreement_(std::move(agreement)),
      evaluator_(session, feed),
      observers_(observers),
      folder_(folder) {
  evaluator_.stops_by(agreement_);
}

bool Evaluations::due(std::int64_t steps_done) const {
  if (!samples_.has_eval() || steps_done == 0) return false;
  if (steps_done == samples_.plan.steps) return true;
  return options_.eval_every > 0 ? steps_done % options_.eval_every == 0 : samples_.plan.ends_epoch(steps_done);
}

monitor::EvalEnded Evaluations::event_of(const execution::Evaluation& result, const std::string& split,
                                         std::int64_t steps_done) const {
  monitor::EvalEnded event;
  event.step = steps_done;
  event.epoch_progress = samples_.plan.epoch_progress(steps_done);
  event.split = split;
  event.samples = result.samples;
  event.runtime_s = result.runtime_s;
  event.scores = result.scores;
  return event;
}

void Evaluations::run(std::int64_t steps_done) {
  const auto held = session_.engine->hold();
  auto event = event_of({}, "eval", steps_done);
  if (samples_.eval) {
    const auto result = evaluator_.loss(*samples_.eval, "eval");
    event = event_of(result, "eval", steps_done);
    event.loss = result.loss;
  }
  for (const auto& set : samples_.eval_sets) add_set(set, event);
  observers_.eval_ended(event);
  if (options_.generate_each_eval) answer_all(steps_done);
}

// All are one evaluation, so that checkpoint.metric may be any figure of any set: "eval_loss_hard".
void Evaluations::add_set(const job::EvalSet& set, monitor::EvalEnded& event) {
  const auto result = evaluator_.loss(*set.source, set.name);
  event.samples += result.samples;
  event.runtime_s += result.runtime_s;
  event.scores.emplace_back("loss_" + set.name, result.loss);
  for (const auto& [name, value] : result.scores) event.scores.emplace_back(cat(name, "_", set.name), value);
}

void Evaluations::answer_all(std::int64_t steps_done) {
  if (steps_done == answered_after_) return;
  const auto held = session_.engine->hold();
  answers_.clear();
  answer(samples_.train.get(), "train", options_.generate_train_samples, steps_done);
  answer(samples_.eval.get(), "eval", options_.generate_samples, steps_done);
  answered_after_ = steps_done;
}

std::vector<std::string> Evaluations::asked_splits() const {
  std::vector<std::string> splits;
  if (samples_.train && options_.generate_train_samples != 0) splits.emplace_back("train");
  if (samples_.eval && options_.generate_samples != 0) splits.emplace_back("eval");
  return splits;
}

void Evaluations::answer(const data::DataSource* source, const std::string& split, std::int64_t samples,
                         std::int64_t steps_done) {
  if (!source || samples == 0) return;
  const auto result = generation::library().answers(session_, *source, samples, &agreement_);
  folder_.predictions(split, result.answers);
  const auto shown = std::min(result.answers.size(), shown_of_a_split);
  answers_.insert(answers_.end(), result.answers.begin(), result.answers.begin() + static_cast<std::ptrdiff_t>(shown));
  observers_.eval_ended(event_of(result, split, steps_done));
}

}  // namespace capstan::train

std::string capstan::execution::predictions_text(const std::vector<Answer>& answers) {
  return generation::library().predictions_text(answers);
}
