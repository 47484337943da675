#include "train/evaluate.h"

#include <capstan/base/text.h>
#include <capstan/plugin/guard.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "data/eval_plan.h"

namespace capstan::train {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

bool speaks_for_coordinate(const setup::Job& job) {
  return job.mesh.coordinate(job.rank, layout::Axis::tp) == 0 && job.mesh.coordinate(job.rank, layout::Axis::pp) == 0;
}

Evaluator::Evaluator(const setup::Job& job, setup::Session& session, const Feed& feed)
    : job_(job),
      session_(session),
      feed_(feed),
      coordinate_(job.mesh.position(job.rank, layout::data_axes)),
      counts_(speaks_for_coordinate(job)) {}

std::vector<double> Evaluator::sum(std::vector<double> mine) {
  if (!counts_) std::fill(mine.begin(), mine.end(), 0.0);
  auto numbers = at::tensor(mine, at::kDouble);
  session_.world_host->all_reduce(numbers, comm::ReduceOp::sum, "all-reduce evaluation sums");
  const auto* begin = numbers.const_data_ptr<double>();
  return {begin, begin + numbers.numel()};
}

bool Evaluator::anyone(bool mine) {
  auto flag = at::tensor(std::vector<std::int64_t>{mine ? 1 : 0}, at::kLong);
  session_.world_host->all_reduce(flag, comm::ReduceOp::max, "all-reduce generation alive");
  return flag.item<std::int64_t>() > 0;
}

Evaluation Evaluator::loss(const data::DataSource& source) {
  const at::NoGradGuard no_grad;
  const auto begin = Clock::now();
  const data::EvalPlan plan{source.size(), job_.batch.data_parallel_size, job_.train->eval_batch};
  auto loss_sum = at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(session_.device));
  std::int64_t targets = 0;
  std::int64_t samples = 0;
  for (std::int64_t i = 0; i < plan.batches(); ++i) {
    if (agreement_) agreement_->check();
    const auto rows = plan.rows(i, coordinate_);
    const auto host = feed_.rows(source, rows);
    loss_sum += session_.runner->forward(to_device(host, session_.device)).states.to(at::kDouble);
    targets += host.target_tokens;
    samples += std::count_if(rows.begin(), rows.end(), [](std::int64_t row) { return row >= 0; });
  }
  const auto sums = sum({loss_sum.item<double>(), static_cast<double>(targets), static_cast<double>(samples)});
  Evaluation evaluation;
  evaluation.loss = sums[1] > 0 ? sums[0] / sums[1] : 0.0;
  evaluation.samples = static_cast<std::int64_t>(sums[2]);
  evaluation.runtime_s = since(begin);
  return evaluation;
}

Evaluation Evaluator::answers(const data::DataSource& source, std::int64_t wanted) {
  const at::NoGradGuard no_grad;
  const auto begin = Clock::now();
  const auto questions = wanted < 0 ? source.size() : std::min(wanted, source.size());
  const data::EvalPlan plan{questions, job_.batch.data_parallel_size, job_.train->eval_batch};
  Evaluation evaluation;
  monitor::Values totals;
  for (std::int64_t i = 0; i < plan.batches(); ++i) {
    if (agreement_) agreement_->check();
    std::vector<data::Sample> samples;
    for (const auto row : plan.rows(i, coordinate_)) {
      if (row >= 0) samples.push_back(job_.sample(source, row));
    }
    const auto texts = generate(samples);
    for (std::size_t k = 0; k < samples.size(); ++k) {
      const auto scores = plugin::guard(job_.data.name, "score", [&] { return source.score(samples[k], texts[k]); });
      if (totals.empty()) totals = monitor::Values(scores.size());
      for (std::size_t j = 0; j < scores.size(); ++j) {
        totals[j].first = scores[j].first;
        totals[j].second += scores[j].second;
      }
      const std::vector<std::int64_t> prompt(samples[k].tokens.begin(),
                                             samples[k].tokens.begin() + samples[k].prompt_length);
      evaluation.answers.push_back({samples[k].id, job_.tokenizer->decode(prompt), texts[k], samples[k].references});
    }
  }
  // A rank without a question knows no score names; all ranks have them from the others.
  std::vector<std::string> names;
  for (const auto& [name, total] : totals) names.push_back(name);
  for (const auto& text : session_.communicator->exchange(join(names, "\n"))) {
    if (names.empty()) names = split(text, '\n');
  }
  std::vector<double> numbers{static_cast<double>(evaluation.answers.size())};
  for (std::size_t j = 0; j < names.size(); ++j) numbers.push_back(totals.empty() ? 0.0 : totals[j].second);
  const auto sums = sum(numbers);
  evaluation.samples = static_cast<std::int64_t>(sums[0]);
  for (std::size_t j = 0; j < names.size(); ++j)
    evaluation.scores.emplace_back(names[j], sums[0] > 0 ? sums[j + 1] / sums[0] : 0.0);
  evaluation.runtime_s = since(begin);
  return evaluation;
}

// Greedy decoding of a batch of prompts of different lengths, padded on the right: a row's next token goes to the
// row's own next position, where it replaces what padding left in the cache. Ranks without a live row go on with
// the others, since gathering a sharded unit takes all of them.
std::vector<std::string> Evaluator::generate(const std::vector<data::Sample>& samples) {
  const auto rows = std::max<std::int64_t>(1, static_cast<std::int64_t>(samples.size()));
  std::int64_t longest = 1;
  for (const auto& sample : samples) longest = std::max(longest, sample.prompt_length);
  const auto longs = at::TensorOptions().dtype(at::kLong);
  auto tokens = at::full({rows, longest}, data::padding_id(*job_.tokenizer), longs);
  std::vector<std::int64_t> length(static_cast<std::size_t>(rows), 1);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    length[i] = samples[i].prompt_length;
    for (std::int64_t t = 0; t < length[i]; ++t)
      tokens[static_cast<std::int64_t>(i)][t] = samples[i].tokens[static_cast<std::size_t>(t)];
  }
  std::vector<bool> alive(static_cast<std::size_t>(rows), false);
  std::fill_n(alive.begin(), samples.size(), true);
  std::vector<std::vector<std::int64_t>> answers(static_cast<std::size_t>(rows));
  const auto positions = job_.model_facts.max_positions;
  nn::KVCache cache(std::min(positions, longest + job_.train->max_new_tokens));
  nn::Batch batch;
  batch.tokens = tokens.to(session_.device);
  batch.positions = at::arange(longest, longs.device(session_.device)).expand({rows, longest});
  batch.last = (at::tensor(length, longs) - 1).to(session_.device);
  batch.sample_ids = at::zeros({rows}, longs.device(session_.device));
  for (std::int64_t n = 0; n < job_.train->max_new_tokens; ++n) {
    const auto next = session_.runner->forward(batch, &cache).states.argmax(-1).to(at::kCPU);
    cache.set_filled();
    const auto* ids = next.const_data_ptr<std::int64_t>();
    std::vector<std::int64_t> fed(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < alive.size(); ++i) {
      fed[i] = ids[i];
      if (!alive[i]) continue;
      answers[i].push_back(ids[i]);
      alive[i] = !job_.tokenizer->is_end(ids[i]) && length[i] < cache.capacity();
      if (alive[i]) ++length[i];
    }
    if (!anyone(std::find(alive.begin(), alive.end(), true) != alive.end())) break;
    batch.tokens = at::tensor(fed, longs).view({rows, 1}).to(session_.device);
    batch.positions = (at::tensor(length, longs) - 1).view({rows, 1}).to(session_.device);
    batch.last = at::zeros({rows}, longs.device(session_.device));
  }
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    auto& ids = answers[i];
    if (!ids.empty() && job_.tokenizer->is_end(ids.back())) ids.pop_back();
    texts.push_back(job_.tokenizer->decode(ids));
  }
  return texts;
}

}  // namespace capstan::train
