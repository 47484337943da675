#include "execution/generate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/base/philox.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace capstan::execution {
namespace {

at::TensorOptions longs(c10::Device device = c10::Device(c10::DeviceType::CPU)) {
  return at::TensorOptions().dtype(at::kLong).device(device);
}

}  // namespace

double draw(std::uint64_t seed, std::int64_t prompt, std::int64_t position) {
  constexpr unsigned half = 32;
  constexpr unsigned unused = 11;  // bits of 64 that are dropped; a double holds 53
  const auto at = static_cast<std::uint64_t>(position);
  const auto of = static_cast<std::uint64_t>(prompt);
  const auto words = philox({{static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> half),
                              static_cast<std::uint32_t>(of), static_cast<std::uint32_t>(of >> half)}},
                            make_key(seed, RandomPurpose::sampling, "generate"));
  const auto bits = (static_cast<std::uint64_t>(words.word[0]) << half) | words.word[1];
  return static_cast<double>(bits >> unused) * 0x1p-53;
}

at::Tensor choose_tokens(const at::Tensor& logits, const Sampling& sampling, const std::vector<double>& draws) {
  if (sampling.temperature == 0) return logits.argmax(-1).to(at::kCPU);
  CAPSTAN_ASSERT(static_cast<std::int64_t>(draws.size()) == logits.size(0));
  const auto probabilities = at::softmax(logits.to(at::kDouble) / sampling.temperature, -1);
  const auto sorted = at::sort(probabilities, /*stable=*/true, -1, /*descending=*/true);
  const auto& values = std::get<0>(sorted);
  // A token is left out when those before it have the probability asked for; the first one never is.
  const auto kept = values.masked_fill((values.cumsum(-1) - values).ge(sampling.top_p), 0);
  const auto sums = kept.cumsum(-1);
  const auto point = at::tensor(draws, at::kDouble).to(logits.device()).unsqueeze(1) * sums.narrow(1, -1, 1);
  const auto last = kept.gt(0).sum(-1, /*keepdim=*/true) - 1;  // rounding must not go beyond what is kept
  const auto index = at::minimum(sums.le(point).sum(-1, /*keepdim=*/true), last);
  return std::get<1>(sorted).gather(1, index).squeeze(1).to(at::kCPU);
}

data::EvalPlan eval_plan(const session::Job& job, std::int64_t samples) {
  return {samples, job.topology.batch.data_parallel_size, job.config.train->eval_batch};
}

Generator::Generator(session::Session& session)
    : session_(session),
      job_(*session.job),
      tokenizer_(*job_.samples.tokenizer.object),
      sampling_{job_.config.train->temperature, job_.config.train->top_p, job_.seed()} {}

// Prompts of different lengths, padded on the right: a row's next token goes to the row's own next position, where it
// replaces what padding left in the cache. A rank without a prompt has a row of padding.
nn::Batch Generator::first_batch(const std::vector<Prompt>& prompts, std::vector<Row>& rows) const {
  rows.resize(std::max<std::size_t>(1, prompts.size()));
  const auto most = job_.bounds().positions;
  std::int64_t longest = 1;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto length = static_cast<std::int64_t>(prompts[i].tokens.size());
    rows[i].id = prompts[i].id;
    rows[i].alive = length >= 1 && length <= most;
    if (rows[i].alive) rows[i].length = length;
    longest = std::max(longest, rows[i].length);
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(count * longest), 0);  // an id that every model has
  std::vector<std::int64_t> last;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    last.push_back(rows[i].length - 1);
    if (!rows[i].alive) continue;
    std::copy(prompts[i].tokens.begin(), prompts[i].tokens.end(),
              tokens.begin() + static_cast<std::ptrdiff_t>(i) * longest);
  }
  nn::Batch batch;
  batch.tokens = at::tensor(tokens, longs()).view({count, longest}).to(session_.device);
  batch.positions = at::arange(longest, longs(session_.device)).expand({count, longest});
  batch.last = at::tensor(last, longs()).to(session_.device);
  batch.sample_ids = at::zeros({count}, longs(session_.device));
  return batch;
}

// The tokens that were just chosen, each at its row's last position; rows that have ended compute along.
nn::Batch Generator::next_batch(const at::Tensor& tokens, const std::vector<Row>& rows) const {
  const auto count = static_cast<std::int64_t>(rows.size());
  std::vector<std::int64_t> positions;
  for (const auto& row : rows) positions.push_back(row.length - 1);
  nn::Batch batch;
  batch.tokens = tokens.view({count, 1}).to(session_.device);
  batch.positions = at::tensor(positions, longs()).view({count, 1}).to(session_.device);
  batch.last = at::zeros({count}, longs(session_.device));
  batch.sample_ids = at::zeros({count}, longs(session_.device));
  return batch;
}

at::Tensor Generator::choose(const at::Tensor& logits, const std::vector<Row>& rows) const {
  std::vector<double> draws;
  for (const auto& row : rows) draws.push_back(draw(sampling_.seed, row.id, row.length));
  return choose_tokens(logits, sampling_, draws);
}

// The positions on pp without the model's end have no logits, and are told what was chosen.
at::Tensor Generator::next_tokens(const nn::Batch& batch, nn::KVCache& cache, const std::vector<Row>& rows) const {
  const auto logits = session_.interpreter->evaluate(batch, &cache).states;
  cache.set_filled();
  if (session_.runner->stages().is_whole()) return choose(logits, rows);
  const auto count = static_cast<std::int64_t>(rows.size());
  auto chosen = logits.defined() ? choose(logits, rows) : at::empty({count}, longs());
  const auto stages = session_.groups().own("generation", {layout::Axis::pp}, chosen.device());
  stages->broadcast(chosen, job_.model->stages.positions.back(), "broadcast chosen tokens");
  return chosen;
}

void Generator::append(Row& row, std::int64_t token, std::int64_t capacity, const AnswerEnd& end) const {
  if (!row.alive) return;
  if (tokenizer_.is_end(token) || std::find(end.ids.begin(), end.ids.end(), token) != end.ids.end()) {
    row.alive = false;
    return;
  }
  row.answer.push_back(token);
  const bool complete = end.text && end.text(tokenizer_.decode(row.answer)) != std::string::npos;
  row.alive = !complete && row.length < capacity;
  if (row.alive) ++row.length;
}

bool Generator::anyone_alive(const std::vector<Row>& rows) {
  const bool mine = std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.alive; });
  auto flag = at::tensor(std::vector<std::int64_t>{mine ? 1 : 0}, at::kLong);
  session_.world_host->all_reduce(flag, comm::ReduceOp::max, "all-reduce generation alive");
  return flag.item<std::int64_t>() > 0;
}

std::vector<std::vector<std::int64_t>> Generator::tokens(const std::vector<Prompt>& prompts, const AnswerEnd& end) {
  const at::NoGradGuard no_grad;
  std::vector<Row> rows;
  auto batch = first_batch(prompts, rows);
  const auto wanted = job_.config.train->max_new_tokens;
  nn::KVCache cache(std::min(job_.bounds().positions, batch.tokens.size(1) + wanted));
  for (std::int64_t n = 0; n < wanted && anyone_alive(rows); ++n) {
    const auto chosen = next_tokens(batch, cache, rows);
    const auto* ids = chosen.const_data_ptr<std::int64_t>();
    for (std::size_t i = 0; i < rows.size(); ++i) append(rows[i], ids[i], cache.capacity(), end);
    batch = next_batch(chosen, rows);
  }
  std::vector<std::vector<std::int64_t>> answers;
  for (std::size_t i = 0; i < prompts.size(); ++i) answers.push_back(std::move(rows[i].answer));
  return answers;
}

std::vector<std::string> Generator::answer(const std::vector<Prompt>& prompts, const AnswerEnd& end) {
  std::vector<std::string> texts;
  for (const auto& ids : tokens(prompts, end)) {
    texts.push_back(tokenizer_.decode(ids));
    if (end.text) texts.back().resize(std::min(texts.back().size(), end.text(texts.back())));
  }
  return texts;
}

std::vector<std::string> Generator::answer_all(const std::vector<Prompt>& prompts) {
  const auto plan = eval_plan(job_, static_cast<std::int64_t>(prompts.size()));
  nlohmann::json mine = nlohmann::json::array();
  for (std::int64_t i = 0; i < plan.batches(); ++i) {
    std::vector<std::int64_t> rows;
    std::vector<Prompt> own;
    for (const auto row : plan.rows(i, job_.topology.data_coordinate())) {
      if (row < 0) continue;
      rows.push_back(row);
      own.push_back(prompts[static_cast<std::size_t>(row)]);
    }
    const auto texts = answer(own);
    for (std::size_t k = 0; k < rows.size(); ++k) mine.push_back({rows[k], texts[k]});
  }
  std::vector<std::string> all(prompts.size());
  for (const auto& piece : session_.communicator->exchange(mine.dump())) {
    // Ranks of one data coordinate give the same answers.
    for (const auto& row : nlohmann::json::parse(piece)) all[row.at(0).get<std::size_t>()] = row.at(1);
  }
  return all;
}

}  // namespace capstan::execution
