#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/plugin/host.h>
#include <capstan/ranks/model_session.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "cli/commands.h"
#include "config/to_toml.h"
#include "generation/generation.h"
#include "ranks/run_command.h"
#include "ranks/start.h"
#include "step/evaluate.h"
#include "step/session.h"
#include "step/step.h"
#include "train/control.h"
#include "train/prepare_together.h"

namespace capstan::ranks {

// What makes a session's steps, one after the other.
class SessionSteps {
 public:
  explicit SessionSteps(step::Session& session)
      : job_(*session.job),
        feed_(job_),
        control_(session.world_host, *session.communicator, job_.topology.represents_coordinate()),
        step_(session) {
    step_.hooks().begin(0);
  }
  double make(double lr) {
    const auto input = feed_.draw(next_++);
    control_.start(input, {}, {});
    const auto totals = control_.wait();
    auto numbers = step_.run(input, totals.objective, lr);
    numbers.read();
    if (totals.target_tokens == 0) return std::numeric_limits<double>::quiet_NaN();
    const auto loss = numbers.loss_sum() / strategy::divisor(totals.objective.at(job_.plugins.minimised->base()));
    if (!numbers.skipped()) step_.hooks().loss_known(input.step, loss);
    return loss;
  }
  std::int64_t next() const { return next_; }

 private:
  const job::Job& job_;
  step::Feed feed_;
  train::Control control_;
  step::Step step_;
  std::int64_t next_ = 0;
};

struct ModelSession::State {
  std::optional<ConnectedRank> rank;
  std::optional<plugin::Host> host;
  std::optional<job::Job> job;
  std::optional<step::Session> session;
  std::unique_ptr<SessionSteps> steps;  // null before the first one
};

namespace {

const data::DataSource& source_of(const job::Job& job, const std::string& split) {
  const auto& source = split == "train" ? job.samples.train : job.samples.eval;
  if (!source) {
    throw Error(cat("the configuration names no data for the split '", split, "'"),
                cat("set data.", split, ", or use --split ", split == "train" ? "eval" : "train"));
  }
  return *source;
}

// Prompts with their numbers. Throws Error for one that is empty or too long.
std::vector<generation::Prompt> numbered(const std::vector<std::vector<std::int64_t>>& all, std::int64_t positions) {
  std::vector<generation::Prompt> prompts;
  for (const auto& tokens : all) {
    const auto length = static_cast<std::int64_t>(tokens.size());
    const auto number = prompts.size() + 1;
    if (length == 0) {
      throw Error(cat("prompt ", number, " is empty, and this tokenizer puts nothing before a text"),
                  "write something to continue from");
    }
    if (length > positions) {
      throw Error(cat("prompt ", number, " has ", thousands(length), " tokens, the model has ", thousands(positions),
                      " positions"),
                  "shorten it");
    }
    prompts.push_back({tokens, static_cast<std::int64_t>(number) - 1});
  }
  return prompts;
}

void load_model(const launch::RunArguments& arguments, const launch::Environment& env, const Rank& rank,
                ModelSession::State& state) {
  state.rank.emplace(rank);
  state.host = cli::plugin_host(env, rank.device.kind == "cuda");
  state.job.emplace(train::prepare_together(request_of_rank(arguments, env, rank), *state.host, *rank.communicator));
  train::read_token_caches(*state.job, step::Stop(), *rank.communicator, terminal::print_progress);
  state.session = step::materialise(*state.job, *rank.communicator);
}

launch::RunArguments arguments_for(const RanksCall& ranks_call, const ModelChoice& choice, ModelUse use) {
  auto arguments = arguments_of(ranks_call);
  arguments.config = choice.config;
  arguments.overrides.insert(arguments.overrides.begin(), choice.overrides.begin(), choice.overrides.end());
  arguments.weights = choice.weights;
  arguments.purpose = use == ModelUse::train      ? setup::Purpose::train
                      : use == ModelUse::evaluate ? setup::Purpose::evaluate
                                                  : setup::Purpose::generate;
  if (use == ModelUse::train)
    arguments.overrides.emplace_back("checkpoint.resume=none");  // a run resumes, and this is none
  return arguments;
}

}  // namespace

const ConnectedRank& ModelSession::rank() const { return *state_.rank; }
std::string ModelSession::configuration() const { return config::to_toml(state_.job->tables()); }
std::filesystem::path ModelSession::run_dir() const { return state_.job->config.run->dir; }
std::string ModelSession::name() const { return state_.job->config.name; }

ModelSession::Evaluated ModelSession::evaluate(const std::string& split, std::int64_t samples) {
  const auto& source = source_of(*state_.job, split);
  const step::Feed feed(*state_.job);
  step::Evaluator evaluator(*state_.session, feed);
  const auto held = state_.session->engine->hold();
  Evaluated evaluated;
  evaluated.loss = evaluator.loss(source, split);
  const bool has_words = state_.job->plugins.model_facts.gives(nn::HeadOutput::last_logits);
  if (has_words) evaluated.answers = generation::library().answers(*state_.session, source, samples, nullptr);
  return evaluated;
}

std::int64_t ModelSession::steps() const { return state_.job->samples.plan.steps; }

double ModelSession::step(double lr) {
  if (steps() == 0 || (state_.steps && state_.steps->next() >= steps())) {
    throw Error(cat("all ", thousands(steps()), " steps of the configuration are made"),
                "set train.max_steps to as many as are needed, and load the model with ModelUse::train");
  }
  if (!state_.steps) state_.steps = std::make_unique<SessionSteps>(*state_.session);
  return state_.steps->make(lr);
}

const tokenizer::Tokenizer& ModelSession::tokenizer() const { return *state_.job->samples.tokenizer.object; }
std::int64_t ModelSession::positions() const { return state_.job->plugins.model_facts.max_positions; }
std::int64_t ModelSession::max_new_tokens() const { return state_.job->config.train->max_new_tokens; }

std::vector<std::string> ModelSession::generate(const std::vector<std::string>& prompts) {
  const auto before = tokenizer().prefix_ids();
  std::vector<std::vector<std::int64_t>> all;
  for (const auto& text : prompts) {
    auto ids = tokenizer().encode(text);
    const bool has_it = ids.size() >= before.size() && std::equal(before.begin(), before.end(), ids.begin());
    if (!has_it) ids.insert(ids.begin(), before.begin(), before.end());
    all.push_back(std::move(ids));
  }
  return generate(all, {});
}

std::vector<std::string> ModelSession::generate(const std::vector<std::vector<std::int64_t>>& prompts,
                                                const execution::AnswerEnd& end) {
  return generation::library().texts(*state_.session, numbered(prompts, positions()), end);
}

int with_model(const RanksCall& ranks_call, const ModelChoice& choice, ModelUse use,
               const std::function<int(ModelSession&)>& work) {
  const auto arguments = arguments_for(ranks_call, choice, use);
  const auto& env = ranks_call.call.environment;
  // This is outside of what a failure unwinds: a rank that fails ends with its state as it is.
  auto state = std::make_unique<ModelSession::State>();
  return run_as_rank(arguments, env, [&](const Rank& rank) {
    auto code = static_cast<int>(ExitCode::usage);
    try {
      load_model(arguments, env, rank, *state);
      ModelSession session(*state);
      code = work(session);
    } catch (const train::ConfigurationRefused& refused) {
      if (rank.first()) terminal::print_error(refused.what());
    }
    state.reset();  // before the communicator goes
    return code;
  });
}

}  // namespace capstan::ranks
