#include "step/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <capstan/base/clock.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include "plugin/guard.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "data/content.h"

namespace capstan::step {
namespace {

using Clock = std::chrono::steady_clock;

// The name of an answer among `others`: its id, unless that is another's, or empty.
std::string name_of(const execution::Answer& answer, const Json& others) {
  const auto question = cat("question ", answer.index);
  auto name = answer.id.empty() ? question : answer.id;
  if (others.contains(name)) name = cat(answer.id, " (", question, ")");
  while (others.contains(name)) name += "'";
  return name;
}

at::Tensor all_of(const objective::Sums& sums) {
  auto all = sums.terms;
  all.insert(all.end(), sums.figures.begin(), sums.figures.end());
  return at::stack(all).to(at::kDouble);
}

void append(std::vector<double>& numbers, const at::Tensor& sums) {
  const auto host = sums.cpu();
  const auto* begin = host.const_data_ptr<double>();
  numbers.insert(numbers.end(), begin, begin + host.numel());
}

// `sums` are those of terms, then of figures. A mean over nothing is none: 0 would be the best loss that there is.
execution::Evaluation evaluation_of(const strategy::Objective& objective, const std::vector<double>& counts,
                                    const std::vector<double>& sums) {
  const auto mean = [&](double sum, std::size_t count) { return counts[count] > 0 ? sum / counts[count] : 0.0; };
  const auto& plan = objective.plan();
  const auto& terms = plan.terms;
  const auto& figures = plan.figures;
  execution::Evaluation evaluation;
  for (std::size_t i = 0; i < terms.size(); ++i) evaluation.loss += terms[i].weight * mean(sums[i], terms[i].count);
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (counts[figures[i].count] > 0)
      evaluation.scores.emplace_back(figures[i].name, mean(sums[terms.size() + i], figures[i].count));
  }
  return evaluation;
}

}  // namespace

std::vector<double> Evaluator::sum(std::vector<double> mine) {
  if (!job_.topology.speaks_for_coordinate()) std::fill(mine.begin(), mine.end(), 0.0);
  return sum_given(mine);
}

std::vector<double> Evaluator::sum_given(const std::vector<double>& mine) {
  auto numbers = at::tensor(mine, at::kDouble);
  session_.world_host->all_reduce(numbers, comm::ReduceOp::sum, "all-reduce evaluation sums");
  const auto* begin = numbers.const_data_ptr<double>();
  return {begin, begin + numbers.numel()};
}

execution::Evaluation Evaluator::loss(const data::DataSource& source, const std::string& split) {
  const at::NoGradGuard no_grad;
  const auto held = session_.engine->hold();
  const auto begin = Clock::now();
  const auto plan = execution::eval_plan(job_, source.size());
  const auto& objective = passes_.objective();
  const auto terms = objective.plan().terms.size(), counted = objective.plan().counts.size();
  at::Tensor device_sums;                 // of terms, then of figures
  std::vector<double> mine(counted + 1);  // counts, then samples
  auto own = feed_.by_length(source, plan.rows_of(job_.topology.data_coordinate()));
  mine.back() = static_cast<double>(own.size());
  own.resize(static_cast<std::size_t>(plan.batches() * plan.batch), -1);
  for (std::int64_t i = 0; i < plan.batches(); ++i) {
    if (agreement_) agreement_->check();
    const auto first = own.begin() + i * plan.batch;
    const auto host = feed_.rows(source, {first, first + plan.batch});
    const auto sums = passes_.evaluate(to_device(host, session_.device, job_.model->sequence_cut));
    if (!sums.terms.empty()) device_sums = device_sums.defined() ? device_sums + all_of(sums) : all_of(sums);
    const auto counts = objective.counts(host);
    for (std::size_t k = 0; k < counted; ++k) mine[k] += counts[k];
  }
  // The rank that computes the model's end has the sums; the one that speaks for its samples has their numbers.
  if (!job_.topology.speaks_for_coordinate()) std::fill(mine.begin(), mine.end(), 0.0);
  if (device_sums.defined() && job_.topology.speaks_for_stage()) append(mine, device_sums);
  mine.resize(counted + 1 + terms + objective.plan().figures.size());
  const auto all = sum_given(mine);
  const auto first_count = objective.plan().terms.at(0).count;
  if (all[first_count] <= 0) {
    throw Error(cat("the evaluation '", split, "' is over no ", objective.plan().counts[first_count]),
                data::no_target_in_evaluation);
  }
  const auto first_sum = all.begin() + static_cast<std::ptrdiff_t>(counted + 1);
  auto evaluation = evaluation_of(objective, {all.begin(), first_sum - 1}, {first_sum, all.end()});
  evaluation.samples = static_cast<std::int64_t>(all[counted]);
  evaluation.runtime_s = seconds_since(begin);
  return evaluation;
}

// Sums of this rank's scores, each with the number of questions that have it.
struct Evaluator::Scores {
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

execution::Evaluation Evaluator::answers(const data::DataSource& source, std::int64_t wanted) {
  const auto begin = Clock::now();
  const auto questions = wanted < 0 ? source.size() : std::min(wanted, source.size());
  const auto plan = execution::eval_plan(job_, questions);
  execution::Evaluation evaluation;
  Scores scores;
  const auto mine = ask(source, plan, scores);
  if (agreement_) agreement_->check();  // for a stop that was asked for while answers were scored
  gather(scores, evaluation);
  evaluation.answers = gather(mine);
  evaluation.runtime_s = seconds_since(begin);
  return evaluation;
}

execution::AnswerEnd Evaluator::end_of(const data::DataSource& source) const {
  const auto text_end = [this, &source](std::string_view text) {
    return plugin::guard(job_.samples.plugin, "answer_end", [&] { return source.answer_end(text); });
  };
  return {text_end, plugin::guard(job_.samples.plugin, "end_ids", [&] { return source.end_ids(); })};
}

// This rank's questions, which are scored in their order.
std::vector<execution::Answer> Evaluator::ask(const data::DataSource& source, const data::EvalPlan& plan,
                                              Scores& scores) {
  constexpr std::int64_t with_prompt = 5;
  std::vector<data::Sample> samples;
  std::vector<execution::Prompt> prompts;
  for (const auto row : plan.rows_of(job_.topology.data_coordinate())) {
    auto sample = job_.samples.question(source, row);
    // An expected answer without a prompt is a question that is missed, and counts.
    if (sample.prompt_length < 1 && sample.references.empty()) continue;
    prompts.push_back({{sample.tokens.begin(), sample.tokens.begin() + sample.prompt_length}, row});
    samples.push_back(std::move(sample));
  }
  const auto texts = generator_.answer_batches(prompts, end_of(source), [&] {
    if (agreement_) agreement_->check();
  });
  std::vector<execution::Answer> answers;
  for (std::size_t k = 0; k < samples.size(); ++k) {
    const auto& sample = samples[k];
    scores.add(plugin::guard(job_.samples.plugin, "score", [&] { return source.score(sample, texts[k]); }));
    const auto prompt =
        prompts[k].id < with_prompt ? job_.samples.tokenizer.object->decode(prompts[k].tokens) : std::string();
    answers.push_back({prompts[k].id, sample.id, prompt, texts[k], sample.references});
  }
  return answers;
}

// A rank without a question knows no score names; all ranks have them from the others. A question without a score
// counts in no mean.
void Evaluator::gather(const Scores& scores, execution::Evaluation& evaluation) {
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
  const auto sums = sum(numbers);
  evaluation.samples = static_cast<std::int64_t>(sums[0]);
  auto at = sums.begin() + 1;
  for (const auto& [name, total] : totals) {
    if (at[1] > 0) evaluation.scores.emplace_back(name, at[0] / at[1]);
    at += 2;
  }
}

// Ranks of one data coordinate have the same answers: only one of them sends them.
std::vector<execution::Answer> Evaluator::gather(const std::vector<execution::Answer>& mine) {
  auto list = Json::array();
  if (job_.topology.speaks_for_coordinate()) {
    for (const auto& answer : mine)
      list.push_back({answer.index, answer.id, answer.prompt, answer.text, answer.references});
  }
  std::vector<execution::Answer> all;
  const auto pieces = session_.communicator->exchange(list.dump());
  for (const auto& piece : pieces) {
    for (const auto& row : Json::parse(piece)) {
      all.push_back({row.at(0).get<std::int64_t>(), row.at(1).get<std::string>(), row.at(2).get<std::string>(),
                     row.at(3).get<std::string>(), row.at(4).get<std::vector<std::string>>()});
    }
  }
  std::sort(all.begin(), all.end(),
            [](const execution::Answer& a, const execution::Answer& b) { return a.index < b.index; });
  return all;
}

}  // namespace capstan::step

namespace capstan::execution {

std::string predictions_text(const std::vector<Answer>& answers) {
  auto json = Json::object();
  for (const auto& answer : answers) json[step::name_of(answer, json)] = trim(answer.text);
  return json.sorted().dump(1) + "\n";
}

}  // namespace capstan::execution
