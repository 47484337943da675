#include "execution/generate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/base/philox.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>

namespace capstan::execution {
namespace {

constexpr std::int64_t steps_ahead = 8;  // of the host, which waits for a GPU only after them

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
  if (sampling.temperature == 0) return logits.argmax(-1);
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
  return std::get<1>(sorted).gather(1, index).squeeze(1);
}

data::EvalPlan eval_plan(const session::Job& job, std::int64_t samples) {
  return {samples, job.topology.batch.data_parallel_size, job.config.train->eval_batch};
}

Generator::Generator(session::Session& session, std::int64_t ask_every)
    : session_(session),
      job_(*session.job),
      tokenizer_(*job_.samples.tokenizer.object),
      sampling_{job_.config.train->temperature, job_.config.train->top_p, job_.seed()},
      ask_every_(ask_every > 0             ? ask_every
                 : session.device.is_cpu() ? 1
                                           : steps_ahead) {}

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
  const auto tokens = at::zeros({count, longest}, longs()), last = at::zeros({count}, longs());
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& row = rows[static_cast<std::size_t>(i)];
    last[i].fill_(row.length - 1);
    if (row.alive)  // else it has an id that every model has
      tokens[i].narrow(0, 0, row.length).copy_(at::tensor(prompts[static_cast<std::size_t>(i)].tokens, longs()));
  }
  nn::Batch batch;
  batch.tokens = tokens.to(session_.device);
  batch.positions = at::arange(longest, longs(session_.device)).expand({count, longest});
  batch.last = last.to(session_.device);
  batch.sample_ids = at::zeros({count}, longs(session_.device));
  return batch;
}

// `ahead` tokens of each row are on the device only.
at::Tensor Generator::choose(const at::Tensor& logits, const std::vector<Row>& rows, std::int64_t ahead) const {
  std::vector<double> draws;
  for (const auto& row : rows) draws.push_back(draw(sampling_.seed, row.id, row.length + ahead));
  return choose_tokens(logits, sampling_, draws);
}

// The positions on pp without the model's end have no logits, and are told what was chosen.
at::Tensor Generator::next_tokens(const at::Tensor& logits, const std::vector<Row>& rows, std::int64_t ahead) const {
  if (session_.runner->stages().is_whole()) return choose(logits, rows, ahead);
  const auto count = static_cast<std::int64_t>(rows.size());
  auto chosen = logits.defined() ? choose(logits, rows, ahead).cpu() : at::empty({count}, longs());
  const auto stages = session_.groups().own("generation", {layout::Axis::pp}, chosen.device());
  stages->broadcast(chosen, job_.model->stages.positions.back(), "broadcast chosen tokens");
  return chosen.to(session_.device);
}

void Generator::append(Row& row, std::int64_t token, const AnswerEnd& end) const {
  if (!row.alive) return;
  if (tokenizer_.is_end(token) || std::find(end.ids.begin(), end.ids.end(), token) != end.ids.end()) {
    row.alive = false;
    return;
  }
  row.answer.push_back(token);
  const bool complete = end.text && end.text(tokenizer_.decode(row.answer)) != std::string::npos;
  row.alive = !complete && row.length < job_.bounds().positions;
  if (row.alive) ++row.length;
}

bool Generator::anyone_alive(const std::vector<Row>& rows) {
  const bool mine = std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.alive; });
  auto flag = at::tensor(std::vector<std::int64_t>{mine ? 1 : 0}, at::kLong);
  session_.world_host->all_reduce(flag, comm::ReduceOp::max, "all-reduce generation alive");
  return flag.item<std::int64_t>() > 0;
}

std::vector<std::vector<std::int64_t>> Generator::continued(const std::vector<Prompt>& prompts, const AnswerEnd& end,
                                                            std::unique_ptr<DecodeSteps>& steps) {
  const at::NoGradGuard no_grad;
  std::vector<Row> rows;
  const auto batch = first_batch(prompts, rows);
  const auto count = batch.tokens.size(0), wanted = job_.config.train->max_new_tokens;
  const auto capacity = std::min(job_.bounds().positions, batch.tokens.size(1) + wanted);
  if (!steps || !steps->takes(count, capacity)) {
    steps = nullptr;  // its memory goes first
    steps = std::make_unique<DecodeSteps>(session_, count, capacity);
  }
  at::Tensor chosen;
  for (std::int64_t n = 0; n < wanted && anyone_alive(rows); n += ask_every_) {
    std::vector<at::Tensor> unseen;
    for (std::int64_t ahead = 0; ahead < std::min(ask_every_, wanted - n); ++ahead) {
      chosen = next_tokens(chosen.defined() ? steps->next(chosen) : steps->begin(batch), rows, ahead);
      unseen.push_back(chosen);
    }
    const auto ids = at::stack(unseen, 1).cpu();
    const auto* id = ids.const_data_ptr<std::int64_t>();
    for (auto& row : rows) {
      for (std::size_t ahead = 0; ahead < unseen.size(); ++ahead) append(row, *id++, end);
    }
  }
  std::vector<std::vector<std::int64_t>> answers;
  for (std::size_t i = 0; i < prompts.size(); ++i) answers.push_back(std::move(rows[i].answer));
  return answers;
}

std::vector<std::string> Generator::texts(const std::vector<std::vector<std::int64_t>>& answers,
                                          const AnswerEnd& end) const {
  std::vector<std::string> texts;
  for (const auto& ids : answers) {
    texts.push_back(tokenizer_.decode(ids));
    if (end.text) texts.back().resize(std::min(texts.back().size(), end.text(texts.back())));
  }
  return texts;
}

std::vector<std::vector<std::int64_t>> Generator::tokens(const std::vector<Prompt>& prompts, const AnswerEnd& end) {
  std::unique_ptr<DecodeSteps> steps;
  return continued(prompts, end, steps);
}

std::vector<std::string> Generator::answer(const std::vector<Prompt>& prompts, const AnswerEnd& end) {
  return texts(tokens(prompts, end), end);
}

// The longest first: what later batches need has room in the first one's memory, and what runs out does so at once.
std::vector<std::string> Generator::answer_batches(const std::vector<Prompt>& prompts, const AnswerEnd& end,
                                                   std::int64_t batches, const std::function<void()>& before) {
  std::vector<std::size_t> order(prompts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto longer = [&](std::size_t a, std::size_t b) { return prompts[a].tokens.size() > prompts[b].tokens.size(); };
  std::stable_sort(order.begin(), order.end(), longer);
  const auto at_once = static_cast<std::size_t>(job_.config.train->eval_batch);
  std::unique_ptr<DecodeSteps> steps;
  std::vector<std::string> all(prompts.size());
  for (std::int64_t i = 0; i < batches; ++i) {
    if (before) before();
    const auto begin = std::min(order.size(), static_cast<std::size_t>(i) * at_once);
    const auto end_of_batch = std::min(order.size(), begin + at_once);
    std::vector<Prompt> some;
    for (auto k = begin; k < end_of_batch; ++k) some.push_back(prompts[order[k]]);
    auto answers = texts(continued(some, end, steps), end);
    for (auto k = begin; k < end_of_batch; ++k) all[order[k]] = std::move(answers[k - begin]);
  }
  return all;
}

std::vector<std::string> Generator::answer_all(const std::vector<Prompt>& prompts) {
  const auto plan = eval_plan(job_, static_cast<std::int64_t>(prompts.size()));
  const auto rows = plan.rows_of(job_.topology.data_coordinate());
  std::vector<Prompt> own;
  for (const auto row : rows) own.push_back(prompts[static_cast<std::size_t>(row)]);
  const auto texts = answer_batches(own, {}, plan.batches());
  nlohmann::json mine = nlohmann::json::array();
  for (std::size_t k = 0; k < rows.size(); ++k) mine.push_back({rows[k], texts[k]});
  std::vector<std::string> all(prompts.size());
  for (const auto& piece : session_.communicator->exchange(mine.dump())) {
    // Ranks of one data coordinate give the same answers.
    for (const auto& row : nlohmann::json::parse(piece)) all[row.at(0).get<std::size_t>()] = row.at(1);
  }
  return all;
}

}  // namespace capstan::execution
