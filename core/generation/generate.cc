#include "generation/generate.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/philox.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "generation/decode_steps.h"
#include "step/evaluate.h"

namespace capstan::generation {
namespace {

constexpr std::int64_t steps_ahead = 8;  // the host waits for a GPU only after them

at::TensorOptions longs(c10::Device device = c10::Device(c10::DeviceType::CPU)) {
  return at::TensorOptions().dtype(at::kLong).device(device);
}

}  // namespace

double draw(std::uint64_t seed, std::int64_t prompt, std::int64_t position) {
  const auto low = [](std::int64_t number) { return static_cast<std::uint32_t>(number); };
  const auto words = philox({{low(position), low(position >> 32), low(prompt), low(prompt >> 32)}},
                            make_key(seed, RandomPurpose::sampling, "generate"));
  const auto bits = (static_cast<std::uint64_t>(words.word[0]) << 32) | words.word[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;  // a double holds 53 bits
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

Generator::Generator(step::Session& session, std::int64_t ask_every)
    : session_(session),
      job_(*session.job),
      tokenizer_(*job_.samples.tokenizer.object),
      sampling_{job_.config.train->temperature, job_.config.train->top_p, job_.seed()},
      ask_every_(ask_every > 0             ? ask_every
                 : session.device.is_cpu() ? 1
                                           : steps_ahead) {}

// What is continued at once.
struct Generator::Answering {
  AnswerRows rows;
  DecodeSteps steps;
  const execution::AnswerEnd& end;
  std::vector<std::int64_t> all;        // rows
  at::Tensor chosen;                    // [rows]: each one's last token
  std::vector<at::Tensor> unseen = {};  // tokens [rows], of one step after the other, that the host has not looked at
  std::vector<std::int64_t> of_others = {};  // how many of these are of the prompt that had the row before
};

namespace {

// Device numbers on their way to the host.
class Arriving {
 public:
  explicit Arriving(const at::Tensor& numbers) : host_(numbers) {
    if (numbers.is_cpu()) return;
    host_ = at::empty(numbers.sizes(), numbers.options().device(at::kCPU).pinned_memory(true));
    host_.copy_(numbers, /*non_blocking=*/true);
    event_.emplace(numbers.device().type());
    event_->record(c10::impl::VirtualGuardImpl(numbers.device().type()).getStream(numbers.device()));
  }
  const at::Tensor& wait() const {
    if (event_) event_->synchronize();
    return host_;
  }

 private:
  at::Tensor host_;
  std::optional<c10::Event> event_;
};

}  // namespace

// Prompts of different lengths, padded on the right: a row's next token goes to the row's own next position, where it
// replaces what padding left in the cache. A rank that begins none has a row of padding.
nn::Batch Generator::batch_of(const AnswerRows& rows, const std::vector<std::int64_t>& begun) const {
  const auto count = std::max<std::int64_t>(1, static_cast<std::int64_t>(begun.size()));
  std::int64_t longest = 1;
  for (const auto row : begun) longest = std::max(longest, static_cast<std::int64_t>(rows.prompt(row).tokens.size()));
  const auto tokens = at::zeros({count, longest}, longs()), last = at::zeros({count}, longs());
  for (std::size_t i = 0; i < begun.size(); ++i) {
    const auto prompt = at::tensor(rows.prompt(begun[i]).tokens, longs());
    const auto at = static_cast<std::int64_t>(i);
    tokens[at].narrow(0, 0, prompt.size(0)).copy_(prompt);
    last[at].fill_(prompt.size(0) - 1);
  }
  nn::Batch batch;
  batch.tokens = tokens.to(session_.device);
  batch.positions = at::arange(longest, longs(session_.device)).expand({count, longest});
  batch.last = last.to(session_.device);
  batch.sample_ids = at::zeros({count}, longs(session_.device));
  return batch;
}

// What has ended, or never began, is not looked at.
std::vector<double> Generator::draws(const Answering& answering, const std::vector<std::int64_t>& some) const {
  const auto& rows = answering.rows;
  std::vector<double> draws;
  for (const auto row : some) {
    const auto& at = rows.at(row);
    const auto ahead = std::ssize(answering.unseen) - answering.of_others[static_cast<std::size_t>(row)];
    draws.push_back(at.alive ? draw(sampling_.seed, rows.prompt(row).id, at.length + ahead) : 0);
  }
  return draws;
}

// Ranks that split layers have the same logits and take what one of them chooses, since rows that differ in a bit would
// no longer begin and end together. Where a token's step is a graph, this is the call that a hang report names.
at::Tensor Generator::choose(const at::Tensor& logits, const std::vector<double>& draws) const {
  auto chosen = choose_tokens(logits, sampling_, draws);
  const std::vector<layout::Axis> same{layout::Axis::cp, layout::Axis::tp};
  if (job_.topology.mesh.size(same) > 1)
    session_.groups().own("sampling", same, chosen.device())->broadcast(chosen, 0, "broadcast chosen tokens");
  return chosen;
}

// The positions on pp without the model's end have no logits, and are told what was chosen.
at::Tensor Generator::next_tokens(const at::Tensor& logits, const std::vector<double>& draws) const {
  if (session_.runner->stages().is_whole()) return choose(logits, draws);
  const auto count = static_cast<std::int64_t>(draws.size());
  auto chosen = logits.defined() ? choose(logits, draws).cpu() : at::empty({count}, longs());
  const auto stages = session_.groups().own("generation", {layout::Axis::pp}, chosen.device());
  stages->broadcast(chosen, job_.model->stages.positions.back(), "broadcast chosen tokens");
  return chosen.to(session_.device);
}

void Generator::append(Answering& answering, std::int64_t row, std::int64_t token) const {
  auto& rows = answering.rows;
  const auto& end = answering.end;
  if (!rows.at(row).alive) return;
  if (tokenizer_.is_end(token) || std::find(end.ids.begin(), end.ids.end(), token) != end.ids.end())
    return rows.end(row);
  const auto& answer = rows.append(row, token);
  if (end.text && end.text(tokenizer_.decode(answer)) != std::string::npos) rows.end(row);
}

// What every rank does next: whether it begins prompts, since one of them has some to begin, and how many tokens an
// answer may still get. Ranks that split layers have the same logits, hence the same rows.
std::pair<bool, std::int64_t> Generator::agree(const AnswerRows& rows) {
  const std::vector<std::int64_t> mine{rows.is_due() ? 1 : 0, rows.missing()};
  auto most = at::tensor(mine, at::kLong);
  session_.world_host->all_reduce(most, comm::ReduceOp::max, "all-reduce generation alive");
  return {most[0].item<std::int64_t>() > 0, most[1].item<std::int64_t>()};
}

// A rank whose rows are taken, or that has no prompt left, runs the same units as those that begin some.
void Generator::begin(Answering& answering) {
  const auto begun = answering.rows.begin();
  const auto where = at::tensor(begun, longs()).to(session_.device);
  const auto logits = answering.steps.begin(batch_of(answering.rows, begun), where);
  if (begun.empty()) return;
  for (const auto row : begun) answering.of_others[static_cast<std::size_t>(row)] = std::ssize(answering.unseen);
  const auto first = next_tokens(logits, draws(answering, begun));
  answering.chosen.index_copy_(0, where, first);
  const auto ids = first.cpu();
  for (std::size_t i = 0; i < begun.size(); ++i) append(answering, begun[i], ids.const_data_ptr<std::int64_t>()[i]);
}

void Generator::queue_step(Answering& answering) {
  const auto logits = answering.steps.next(answering.chosen);
  answering.chosen = next_tokens(logits, draws(answering, answering.all));
  answering.unseen.push_back(answering.chosen);
}

// `missing`: tokens that an answer may still get. While the host looks at some tokens the device computes the next one.
void Generator::decode(Answering& answering, std::int64_t missing) {
  auto& unseen = answering.unseen;
  const auto steps = std::min(ask_every_, missing);
  while (std::ssize(unseen) < steps) queue_step(answering);
  // What a graph holds is in no hang report, and ranks that share experts may exchange nothing else on the device.
  if (job_.topology.mesh.size(layout::Axis::ep) > 1) session_.world_device->barrier("barrier generated tokens");
  const Arriving tokens(at::stack(unseen, 1));
  if (missing > steps && ask_every_ > 1) queue_step(answering);
  unseen.erase(unseen.begin(), unseen.begin() + steps);
  const auto* id = tokens.wait().const_data_ptr<std::int64_t>();
  for (const auto row : answering.all) {
    auto& of_others = answering.of_others[static_cast<std::size_t>(row)];
    for (std::int64_t step = 0; step < steps; ++step, ++id) {
      of_others > 0 ? static_cast<void>(--of_others) : append(answering, row, *id);
    }
  }
}

std::vector<std::vector<std::int64_t>> Generator::continued(const std::vector<Prompt>& prompts,
                                                            const execution::AnswerEnd& end, std::size_t at_once,
                                                            const std::function<void()>& before) {
  const at::NoGradGuard no_grad;
  const auto held = session_.engine->hold();
  const auto wanted = job_.config.train->max_new_tokens, positions = job_.bounds().positions;
  // Ranks that share experts tell each other nothing of how many rows they have.
  auto most = at::tensor({static_cast<std::int64_t>(std::min(at_once, prompts.size()))}, longs());
  session_.world_host->all_reduce(most, comm::ReduceOp::max, "all-reduce rows of answers");
  const auto count = std::max<std::int64_t>(1, most.item<std::int64_t>());
  AnswerRows rows(prompts, {static_cast<std::int64_t>(at_once), wanted, positions, count});
  DecodeSteps steps(session_, count, std::min(positions, rows.longest() + wanted), DecodeSteps::recorder_for(session_));
  Answering answering{std::move(rows), std::move(steps), end, {}, at::zeros({count}, longs(session_.device))};
  answering.all.resize(static_cast<std::size_t>(count));
  answering.of_others.resize(answering.all.size());
  std::iota(answering.all.begin(), answering.all.end(), std::int64_t{0});
  while (true) {
    const auto [begins, missing] = agree(answering.rows);
    if (!begins && missing == 0) return answering.rows.answers();
    if (begins && before) before();
    begins ? begin(answering) : decode(answering, missing);
  }
}

std::vector<std::string> Generator::texts(const std::vector<std::vector<std::int64_t>>& answers,
                                          const execution::AnswerEnd& end) const {
  std::vector<std::string> texts;
  for (const auto& ids : answers) {
    texts.push_back(tokenizer_.decode(ids));
    if (end.text) texts.back().resize(std::min(texts.back().size(), end.text(texts.back())));
  }
  return texts;
}

std::vector<std::vector<std::int64_t>> Generator::tokens(const std::vector<Prompt>& prompts,
                                                         const execution::AnswerEnd& end) {
  return continued(prompts, end, std::max<std::size_t>(1, prompts.size()));
}

std::vector<std::string> Generator::answer_batches(const std::vector<Prompt>& prompts, const execution::AnswerEnd& end,
                                                   const std::function<void()>& before) {
  return texts(continued(prompts, end, static_cast<std::size_t>(job_.config.train->eval_batch), before), end);
}

std::vector<std::string> Generator::answer_all(const std::vector<Prompt>& prompts, const execution::AnswerEnd& end) {
  const auto plan = step::eval_plan(job_, static_cast<std::int64_t>(prompts.size()));
  const auto rows = plan.rows_of(job_.topology.data_coordinate());
  std::vector<Prompt> own;
  for (const auto row : rows) own.push_back(prompts[static_cast<std::size_t>(row)]);
  const auto texts = answer_batches(own, end);
  auto mine = Json::array();
  for (std::size_t k = 0; k < rows.size(); ++k) mine.push_back({rows[k], texts[k]});
  std::vector<std::string> all(prompts.size());
  for (const auto& piece : session_.communicator->exchange(mine.dump())) {
    // Ranks of one data coordinate give the same answers.
    for (const auto& row : Json::parse(piece)) all[row.at(0).get<std::size_t>()] = row.at(1).text();
  }
  return all;
}

}  // namespace capstan::generation
