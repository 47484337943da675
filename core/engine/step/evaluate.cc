#include "step/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <capstan/base/clock.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <chrono>

#include "data/content.h"
#include "step/to_device.h"

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

[[noreturn]] void refuse_nothing(const std::string& split, const std::string& count) {
  throw Error(cat("the evaluation '", split, "' is over no ", count), data::no_target_in_evaluation);
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

data::EvalPlan eval_plan(const session::Job& job, std::int64_t samples) {
  return {samples, job.topology.batch.data_parallel_size, job.config.train->eval_batch};
}

std::vector<double> sum_over_ranks(const session::Session& session, const std::vector<double>& mine) {
  auto numbers = at::tensor(mine, at::kDouble);
  session.world_host->all_reduce(numbers, comm::ReduceOp::sum, "all-reduce evaluation sums");
  const auto* begin = numbers.const_data_ptr<double>();
  return {begin, begin + numbers.numel()};
}

// Those of the whole split, for which passes without gradient run once more.
void Evaluator::tell_baselines(std::int64_t batches, const std::function<data::HostBatch(std::int64_t)>& batch) {
  const auto& objective = passes_.objective();
  const auto counted = objective.plan().counts.size();
  auto sums =
      at::zeros({std::ssize(objective.plan().baselines)}, at::TensorOptions(at::kDouble).device(session_.device));
  std::vector<double> mine(counted);
  for (std::int64_t i = 0; i < batches; ++i) {
    const auto host = batch(i);
    const auto own = to_device(host, session_.device, job_.model->sequence_cut);
    const auto others = passes_.run_others(own);
    if (session_.runner->stages().has_end()) sums += passes_.baselines(own, others);
    const auto counts = objective.counts(host);
    for (std::size_t k = 0; k < counted; ++k) mine[k] += counts[k];
  }
  if (!job_.topology.represents_coordinate()) std::fill(mine.begin(), mine.end(), 0.0);
  if (!job_.topology.represents_stage()) sums.zero_();
  append(mine, sums);
  auto all = sum_over_ranks(session_, mine);
  const std::vector<double> of_split(all.begin() + static_cast<std::ptrdiff_t>(counted), all.end());
  all.resize(counted);
  passes_.tell(at::tensor(of_split, at::kDouble).to(session_.device), all);
}

execution::Evaluation Evaluator::loss(const data::DataSource& source, const std::string& split) {
  const at::NoGradGuard no_grad;
  const auto held = session_.engine->hold();
  const auto begin = Clock::now();
  const auto plan = step::eval_plan(job_, source.size());
  const auto& objective = passes_.objective();
  const auto terms = objective.plan().terms.size(), counted = objective.plan().counts.size();
  at::Tensor device_sums;                 // of terms, then of figures
  std::vector<double> mine(counted + 1);  // counts, then samples
  auto own = feed_.by_length(source, plan.rows_of(job_.topology.data_coordinate()));
  mine.back() = static_cast<double>(own.size());
  own.resize(static_cast<std::size_t>(plan.batches() * plan.batch), -1);
  const auto batch = [&](std::int64_t i) {
    if (agreement_) agreement_->check();
    const auto first = own.begin() + i * plan.batch;
    return feed_.rows(source, {first, first + plan.batch});
  };
  if (!objective.plan().baselines.empty()) tell_baselines(plan.batches(), batch);
  for (std::int64_t i = 0; i < plan.batches(); ++i) {
    const auto host = batch(i);
    const auto sums = passes_.evaluate(to_device(host, session_.device, job_.model->sequence_cut));
    if (!sums.terms.empty()) device_sums = device_sums.defined() ? device_sums + all_of(sums) : all_of(sums);
    const auto counts = objective.counts(host);
    for (std::size_t k = 0; k < counted; ++k) mine[k] += counts[k];
  }
  // The rank that computes the model's end has the sums; the one that represents its samples has their numbers.
  if (!job_.topology.represents_coordinate()) std::fill(mine.begin(), mine.end(), 0.0);
  if (device_sums.defined() && job_.topology.represents_stage()) append(mine, device_sums);
  mine.resize(counted + 1 + terms + objective.plan().figures.size());
  const auto all = sum_over_ranks(session_, mine);
  const auto first_count = objective.plan().terms.at(0).count;
  if (all[first_count] <= 0) refuse_nothing(split, objective.plan().counts[first_count]);
  const auto first_sum = all.begin() + static_cast<std::ptrdiff_t>(counted + 1);
  auto evaluation = evaluation_of(objective, {all.begin(), first_sum - 1}, {first_sum, all.end()});
  evaluation.samples = static_cast<std::int64_t>(all[counted]);
  evaluation.runtime_s = seconds_since(begin);
  return evaluation;
}

}  // namespace capstan::step

namespace capstan::execution {

std::string predictions_text(const std::vector<Answer>& answers) {
  auto json = Json::object();
  for (const auto& answer : answers) json[step::name_of(answer, json)] = trim(answer.text);
  return json.sorted().dump(1) + "\n";
}

}  // namespace capstan::execution
