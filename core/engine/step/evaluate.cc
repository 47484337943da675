#include "step/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <capstan/base/clock.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <chrono>

#include "data/content.h"
#include "step/to_device.h"

namespace capstan::step {
namespace {

using Clock = std::chrono::steady_clock;

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

data::EvalPlan eval_plan(const job::Job& job, std::int64_t samples) {
  return {samples, job.topology.batch.data_parallel_size, job.config.train->eval_batch};
}

std::vector<double> sum_over_ranks(const Session& session, const std::vector<double>& mine) {
  auto numbers = at::tensor(mine, at::kDouble);
  session.world_host->all_reduce(numbers, comm::ReduceOp::sum, "all-reduce evaluation sums");
  const auto* begin = numbers.const_data_ptr<double>();
  return {begin, begin + numbers.numel()};
}

// Sums over all of the split: the counts, the samples, then the numbers that `sums_of` gives of a batch, if any.
std::vector<double> Evaluator::totals(const Split& split, std::int64_t width, const SumsOf& sums_of) {
  auto sums = at::zeros({width}, at::TensorOptions(at::kDouble).device(session_.device));
  std::vector<double> mine(passes_.objective().plan().counts.size());
  for (std::int64_t i = 0; i < split.plan.batches(); ++i) {
    if (agreement_) agreement_->check();
    const auto first = split.own.begin() + i * split.plan.batch;
    const auto host = feed_.rows(split.source, {first, first + split.plan.batch});
    if (const auto found = sums_of(all_to_device(session_, host)); found.defined()) sums += found;
    const auto counts = passes_.objective().counts(host);
    for (std::size_t k = 0; k < mine.size(); ++k) mine[k] += counts[k];
  }
  mine.push_back(static_cast<double>(std::ssize(split.own) - std::count(split.own.begin(), split.own.end(), -1)));
  // The rank that computes the model's end has the sums; the one that represents its samples has their numbers.
  if (!job_.topology.represents_coordinate()) std::fill(mine.begin(), mine.end(), 0.0);
  if (!job_.topology.represents_stage()) sums.zero_();
  append(mine, sums);
  return sum_over_ranks(session_, mine);
}

execution::Evaluation Evaluator::loss(const data::DataSource& source, const std::string& name) {
  const at::NoGradGuard no_grad;
  const auto held = session_.engine->hold();
  const auto begin = Clock::now();
  const auto plan = step::eval_plan(job_, source.size());
  const auto& what = passes_.objective().plan();
  Split split{source, plan, feed_.by_length(source, plan.rows_of(job_.topology.data_coordinate()))};
  split.own.resize(static_cast<std::size_t>(plan.batches() * plan.batch), -1);
  const auto counted = std::ssize(what.counts);
  // Baselines are those of the whole split, for which passes without gradient run once more.
  if (const auto width = std::ssize(what.baselines); width > 0) {
    const auto all = totals(split, width, [&](const std::vector<nn::Batch>& batches) {
      const auto others = passes_.run_others(batches);
      return session_.runner->stages().has_end() ? passes_.baselines(batches.front(), others) : at::Tensor();
    });
    const std::vector<double> of_split(all.begin() + counted + 1, all.end());
    passes_.tell(at::tensor(of_split, at::kDouble).to(session_.device), all);
  }
  const auto all = totals(split, std::ssize(what.terms) + std::ssize(what.figures), [&](const auto& batches) {
    auto [sums, figures] = passes_.evaluate(batches);
    sums.insert(sums.end(), figures.begin(), figures.end());
    return sums.empty() ? at::Tensor() : at::stack(sums).to(at::kDouble);
  });
  const auto first_count = what.terms.at(0).count;
  if (all[first_count] <= 0) refuse_nothing(name, what.counts[first_count]);
  auto evaluation = evaluation_of(passes_.objective(), all, {all.begin() + counted + 1, all.end()});
  evaluation.samples = static_cast<std::int64_t>(all[static_cast<std::size_t>(counted)]);
  evaluation.runtime_s = seconds_since(begin);
  return evaluation;
}

}  // namespace capstan::step
