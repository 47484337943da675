#pragma once
#include <capstan/base/export.h>

#include <capstan/comm/communicator.h>
#include <capstan/strategy/unit_runner.h>
#include <capstan/tokenizer/tokenizer.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "inference/sampling.h"

CAPSTAN_BEGIN_NAMESPACE
namespace inference {

/// Where generation starts.
struct Prompt {
  std::vector<std::int64_t> tokens;
  std::int64_t id = 0;  ///< run-wide; what draws are keyed by
};

/// What ends an answer, besides the tokenizer's end tokens.
struct AnswerEnd {
  std::function<std::size_t(std::string_view text)> text;  ///< where, or npos: DataSource::answer_end; may be null
  std::vector<std::int64_t> ids;                           ///< DataSource::end_ids
};

/// What computes without gradients, and with whom.
struct Forward {
  strategy::UnitRunner& runner;
  comm::Communicator& communicator;
  comm::Group& world;  ///< all ranks, in host memory
  c10::Device device;
};

/// How questions are spread over the data coordinates.
struct EvalShares {
  std::int64_t batch = 1;  ///< rows of one coordinate's batch
  std::int64_t coordinates = 1;
  std::int64_t coordinate = 0;  ///< this rank's …
  bool speaks = true;           ///< … for which it speaks
};

/// How answers are made.
struct GeneratorSetting {
  const tokenizer::Tokenizer& tokenizer;
  Sampling sampling;  ///< draws are keyed by its seed
  std::int64_t max_new_tokens = 0;
  std::int64_t max_positions = 0;  ///< of the model
  EvalShares shares;
};

/// Continues prompts, all of a batch at once, with the keys and values of earlier tokens kept. Every rank runs the same
/// number of unit calls, however many prompts it has and however long its answers are, since gathering a sharded unit
/// takes all of them.
class Generator {
 public:
  Generator(GeneratorSetting setting, const Forward& forward) : setting_(std::move(setting)), forward_(forward) {}
  /// The answers' texts, without the token or text that ends them and what stands after. A prompt that is empty, or
  /// longer than the model's positions, has an empty one. Collective over the world; every rank has its own prompts,
  /// none too.
  std::vector<std::string> answer(const std::vector<Prompt>& prompts, const AnswerEnd& end = {});
  /// The same as tokens; a text that ends an answer is still there.
  std::vector<std::vector<std::int64_t>> tokens(const std::vector<Prompt>& prompts, const AnswerEnd& end = {});
  /// Answers to prompts that every rank has, divided among the data coordinates, train.eval_batch at once; on every
  /// rank. Collective over the world.
  std::vector<std::string> answer_all(const std::vector<Prompt>& prompts);

 private:
  // A row of the batch that is being continued.
  struct Row {
    std::int64_t id = 0;
    std::int64_t length = 1;  // tokens so far
    bool alive = false;
    std::vector<std::int64_t> answer;
  };
  nn::Batch first_batch(const std::vector<Prompt>& prompts, std::vector<Row>& rows) const;
  nn::Batch next_batch(const at::Tensor& tokens, const std::vector<Row>& rows) const;
  at::Tensor choose(const at::Tensor& logits, const std::vector<Row>& rows) const;
  void append(Row& row, std::int64_t token, std::int64_t capacity, const AnswerEnd& end) const;
  bool anyone_alive(const std::vector<Row>& rows);

  GeneratorSetting setting_;
  Forward forward_;
};

}  // namespace inference
CAPSTAN_END_NAMESPACE
