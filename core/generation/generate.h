#pragma once
#include <capstan/base/export.h>
#include <capstan/execution/evaluation.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "generation/answer_rows.h"
#include "step/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace generation {

/// How a next token is chosen from logits.
struct Sampling {
  double temperature = 0;  ///< 0: the most probable one
  double top_p = 1;        ///< draws from the fewest most probable tokens that together have this probability
  std::uint64_t seed = 0;
};

/// The number in [0, 1) that chooses a prompt's token at a position: a Philox block of (seed, prompt, position), so
/// that it depends on nothing else, least of all on who computes it.
double draw(std::uint64_t seed, std::int64_t prompt, std::int64_t position);

/// logits [B, vocabulary] -> [B] int64 on their device. `draws`: a number in [0, 1) for each row; not read where the
/// temperature is 0. Probabilities are float64; among equal ones the lower id comes first.
at::Tensor choose_tokens(const at::Tensor& logits, const Sampling& sampling, const std::vector<double>& draws);

/// Continues prompts, the rows of a batch at once, with the keys and values of earlier tokens kept. A row that has
/// ended takes a prompt that waits, so that the batch stays full; no token depends on that. Every rank begins prompts
/// and runs unit calls at the same times, however many prompts it has and however long its answers are, since gathering
/// a sharded unit takes all of them. Of a model in stages each rank keeps the keys and values of its own layers, and
/// the ranks with the model's end choose the tokens.
class Generator {
 public:
  /// `session` must outlive it. Answers are looked at after each `ask_every` tokens, until then they stay on the
  /// device, which meanwhile computes one more; what rows compute after their ends is dropped. 0: after each one on
  /// CPU, where nothing is gained, else after 8.
  explicit Generator(step::Session& session, std::int64_t ask_every = 0);
  /// The answers as tokens, all at once; a text that ends one is still there. A prompt that is empty, or longer than
  /// the model's positions, has an empty one. Collective over the world; every rank has its own prompts, none too.
  std::vector<std::vector<std::int64_t>> tokens(const std::vector<Prompt>& prompts,
                                                const execution::AnswerEnd& end = {});
  /// The same as texts, without the token or text that ends them and what stands after, train.eval_batch at once.
  /// `before` is called each time that prompts are begun, on all ranks.
  std::vector<std::string> answer_batches(const std::vector<Prompt>& prompts, const execution::AnswerEnd& end = {},
                                          const std::function<void()>& before = {});
  /// Answers to prompts that every rank has, divided among the data coordinates, train.eval_batch at once; on every
  /// rank. Collective over the world.
  std::vector<std::string> answer_all(const std::vector<Prompt>& prompts, const execution::AnswerEnd& end = {});

 private:
  struct Answering;
  nn::Batch batch_of(const AnswerRows& rows, const std::vector<std::int64_t>& begun) const;
  std::vector<double> draws(const Answering& answering, const std::vector<std::int64_t>& some) const;
  at::Tensor choose(const at::Tensor& logits, const std::vector<double>& draws) const;
  at::Tensor next_tokens(const at::Tensor& logits, const std::vector<double>& draws) const;
  void append(Answering& answering, std::int64_t row, std::int64_t token) const;
  std::pair<bool, std::int64_t> agree(const AnswerRows& rows);
  void begin(Answering& answering);
  void queue_step(Answering& answering);
  void decode(Answering& answering, std::int64_t missing);
  std::vector<std::vector<std::int64_t>> continued(const std::vector<Prompt>& prompts, const execution::AnswerEnd& end,
                                                   std::size_t at_once, const std::function<void()>& before = {});
  std::vector<std::string> texts(const std::vector<std::vector<std::int64_t>>& answers,
                                 const execution::AnswerEnd& end) const;

  step::Session& session_;
  const job::Job& job_;
  const tokenizer::Tokenizer& tokenizer_;
  Sampling sampling_;  // draws are keyed by its seed
  std::int64_t ask_every_;
};

}  // namespace generation
CAPSTAN_END_NAMESPACE
