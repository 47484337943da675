#include "generation/generation.h"

#include <ATen/ATen.h>
#include <capstan/base/clock.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/data/source.h>
#include "plugin/guard.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string_view>
#include <utility>

#include "data/eval_plan.h"
#include "generation/generate.h"
#include "step/evaluate.h"

namespace capstan::generation {
namespace {

using execution::Answer;
using execution::Evaluation;
using Clock = std::chrono::steady_clock;

// A split's questions, which each rank asks its share of. Every rank runs the same number of unit calls.
class Questions {
 public:
  Questions(step::Session& session, const data::DataSource& source, const step::StopAgreement* agreement)
      : session_(session), job_(*session.job), source_(source), agreement_(agreement) {}
  Evaluation answers(std::int64_t wanted);

 private:
  struct Scores;
  std::vector<Answer> ask(const data::EvalPlan& plan, Scores& scores);
  execution::AnswerEnd end() const;
  void gather(const Scores& scores, Evaluation& evaluation);
  std::vector<Answer> gather(const std::vector<Answer>& mine);

  step::Session& session_;
  const job::Job& job_;
  const data::DataSource& source_;
  const step::StopAgreement* agreement_;  // null: none
};

// Sums of this rank's scores, each with the number of questions that have it.
struct Questions::Scores {
  std::int64_t questions = 0;
  std::map<std::string, std::pair<double, double>> totals = {};

  void add(const monitor::Values& scores) {
    ++questions;
    for (const auto& [name, value] : scores) {
      totals[name].first += value;
      totals[name].second += 1;
    }
  }
};

Evaluation Questions::answers(std::int64_t wanted) {
  const auto begin = Clock::now();
  const auto questions = wanted < 0 ? source_.size() : std::min(wanted, source_.size());
  const auto plan = step::eval_plan(job_, questions);
  Evaluation evaluation;
  Scores scores;
  const auto mine = ask(plan, scores);
  if (agreement_) agreement_->check();  // for a stop that was asked for while answers were scored
  gather(scores, evaluation);
  evaluation.answers = gather(mine);
  evaluation.runtime_s = seconds_since(begin);
  return evaluation;
}

execution::AnswerEnd Questions::end() const {
  const auto text_end = [this](std::string_view text) {
    return plugin::guard(job_.samples.plugin, "answer_end", [&] { return source_.answer_end(text); });
  };
  return {text_end, plugin::guard(job_.samples.plugin, "end_ids", [&] { return source_.end_ids(); })};
}

// This rank's questions, which are scored in their order.
std::vector<Answer> Questions::ask(const data::EvalPlan& plan, Scores& scores) {
  constexpr std::int64_t with_prompt = 5;
  std::vector<data::Sample> samples;
  std::vector<Prompt> prompts;
  for (const auto row : plan.rows_of(job_.topology.data_coordinate())) {
    auto sample = job_.samples.question(source_, row);
    // An expected answer without a prompt is a question that is missed, and counts.
    if (sample.prompt_length < 1 && sample.references.empty()) continue;
    prompts.push_back({{sample.tokens.begin(), sample.tokens.begin() + sample.prompt_length}, row});
    samples.push_back(std::move(sample));
  }
  const auto texts = Generator(session_).answer_batches(prompts, end(), [&] {
    if (agreement_) agreement_->check();
  });
  std::vector<Answer> answers;
  for (std::size_t k = 0; k < samples.size(); ++k) {
    const auto& sample = samples[k];
    scores.add(plugin::guard(job_.samples.plugin, "score", [&] { return source_.score(sample, texts[k]); }));
    const auto prompt =
        prompts[k].id < with_prompt ? job_.samples.tokenizer.object->decode(prompts[k].tokens) : std::string();
    answers.push_back({prompts[k].id, sample.id, prompt, texts[k], sample.references});
  }
  return answers;
}

// A rank without a question knows no score names; all ranks have them from the others. A question without a score
// counts in no mean.
void Questions::gather(const Scores& scores, Evaluation& evaluation) {
  auto totals = scores.totals;
  std::string mine;
  for (const auto& [name, total] : totals) mine += name + "\n";
  for (const auto& text : session_.communicator->exchange(mine)) {
    for (const auto& name : split(text, '\n')) {
      if (!name.empty()) totals.try_emplace(name);
    }
  }
  std::vector<double> numbers{static_cast<double>(scores.questions)};
  for (const auto& [name, total] : totals) numbers.insert(numbers.end(), {total.first, total.second});
  // Ranks of one data coordinate have asked the same questions.
  if (!job_.topology.represents_coordinate()) std::fill(numbers.begin(), numbers.end(), 0.0);
  const auto sums = step::sum_over_ranks(session_, numbers);
  evaluation.samples = static_cast<std::int64_t>(sums[0]);
  auto at = sums.begin() + 1;
  for (const auto& [name, total] : totals) {
    if (at[1] > 0) evaluation.scores.emplace_back(name, at[0] / at[1]);
    at += 2;
  }
}

// Ranks of one data coordinate have the same answers: only one of them sends them.
std::vector<Answer> Questions::gather(const std::vector<Answer>& mine) {
  auto list = Json::array();
  if (job_.topology.represents_coordinate()) {
    for (const auto& answer : mine)
      list.push_back({answer.index, answer.id, answer.prompt, answer.text, answer.references});
  }
  std::vector<Answer> all;
  const auto pieces = session_.communicator->exchange(list.dump());
  for (const auto& piece : pieces) {
    for (const auto& row : Json::parse(piece)) {
      all.push_back({row.at(0).get<std::int64_t>(), row.at(1).get<std::string>(), row.at(2).get<std::string>(),
                     row.at(3).get<std::string>(), row.at(4).get<std::vector<std::string>>()});
    }
  }
  std::sort(all.begin(), all.end(), [](const Answer& a, const Answer& b) { return a.index < b.index; });
  return all;
}

// The name of an answer among `others`: its id, unless that is another's, or empty.
std::string name_of(const Answer& answer, const Json& others) {
  const auto question = cat("question ", answer.index);
  auto name = answer.id.empty() ? question : answer.id;
  if (others.contains(name)) name = cat(answer.id, " (", question, ")");
  while (others.contains(name)) name += "'";
  return name;
}

class OwnGeneration final : public Generation {
 public:
  Evaluation answers(step::Session& session, const data::DataSource& source, std::int64_t samples,
                     const step::StopAgreement* agreement) const override {
    return Questions(session, source, agreement).answers(samples);
  }
  std::string predictions_text(const std::vector<Answer>& answers) const override {
    auto json = Json::object();
    for (const auto& answer : answers) json[name_of(answer, json)] = trim(answer.text);
    return json.sorted().dump(1) + "\n";
  }
  std::vector<std::string> texts(step::Session& session, const std::vector<Prompt>& prompts,
                                 const execution::AnswerEnd& end) const override {
    return Generator(session).answer_all(prompts, end);
  }
};

}  // namespace
}  // namespace capstan::generation

extern "C" [[gnu::visibility("default")]] const void* capstan_generation() {
  static const capstan::generation::OwnGeneration generation;
  return static_cast<const capstan::generation::Generation*>(&generation);
}
