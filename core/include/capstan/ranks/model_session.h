#pragma once
#include <capstan/base/export.h>
#include <capstan/execution/evaluation.h>
#include <capstan/ranks/connected_rank.h>
#include <capstan/tokenizer/tokenizer.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

/// What a command does with a model, which says what of a configuration it needs.
enum class ModelUse {
  evaluate,
  generate,  ///< no data: only the tokenizer counts in [data]
  train      ///< steps as a run makes them; nothing is saved
};

/// What a name on the command line means as a model.
struct ModelChoice {
  std::string config;                  ///< configuration file; empty: there is none
  std::vector<std::string> overrides;  ///< options that say the rest
  std::string weights;                 ///< folder of a run's weights; empty: what the options start from
  std::string run;                     ///< the run's folder; empty: it is none
};

/// A run's folder (config.toml and weights), a folder of weights inside of one (a checkpoint), or a Hugging Face model
/// folder or an id of the hub that is in its cache, for which the plugin is the one that knows its model_type. Such a
/// folder without a tokenizer's file is read as bytes if its model has as many words as bytes make. Throws Error for
/// anything else.
ModelChoice choose_model(const std::string& name, const command::Call& call);

/// A model in the memory of the ranks that share it. Every rank calls the same methods in the same order: they are
/// collectives.
class ModelSession {
 public:
  struct State;
  explicit ModelSession(State& state) : state_(state) {}

  const ConnectedRank& rank() const;
  /// The configuration with every option, as TOML.
  std::string configuration() const;
  /// run.dir and the run's name.
  std::filesystem::path run_dir() const;
  std::string name() const;

  /// The loss over a split, "train" or "eval"; then the answers to its first `samples` questions (-1: all), and their
  /// scores. Throws Error where the configuration names no data for the split.
  struct Evaluated {
    execution::Evaluation loss;
    execution::Evaluation answers;
  };
  Evaluated evaluate(const std::string& split, std::int64_t samples);
  /// How many steps the configuration plans. Only with ModelUse::train.
  std::int64_t steps() const;
  /// Makes the next of these steps with this learning rate, whatever the schedule says, and waits for its loss: that of
  /// the parameters before the update, as metrics.jsonl has it. Not finite where the step was not, which then updates
  /// nothing. Throws Error where no step is left. Only with ModelUse::train.
  double step(double lr);
  const tokenizer::Tokenizer& tokenizer() const;
  /// Tokens of a prompt and its answer, and of an answer (train.max_new_tokens), at most.
  std::int64_t positions() const;
  std::int64_t max_new_tokens() const;
  /// Texts that continue prompts, which every rank has; sampled as [train] and run.seed say. The tokenizer's prefix_ids
  /// are put before a prompt that does not begin with them itself.
  std::vector<std::string> generate(const std::vector<std::string>& prompts);
  /// The same for prompts as tokens, before which nothing is put.
  std::vector<std::string> generate(const std::vector<std::vector<std::int64_t>>& prompts,
                                    const execution::AnswerEnd& end);

 private:
  State& state_;
};

/// Runs `work` on this rank, once ranks are connected and have loaded the model between them, or starts local ranks.
/// `ranks_call` has the options that win over the choice's. Returns the exit code: the work's, or that of a fault of
/// the configuration, which is printed. What the work throws ends all ranks and becomes the exit code.
int with_model(const RanksCall& ranks_call, const ModelChoice& choice, ModelUse use,
               const std::function<int(ModelSession&)>& work);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
