#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/ranks/model_session.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>

namespace eval {
namespace {

using namespace capstan;
using ranks::ModelSession;
namespace fs = std::filesystem;

struct EvalArguments {
  std::string config;  // or a run's folder or checkpoint
  std::vector<std::string> overrides;
  std::string split = "eval";  // or "train"
  std::int64_t samples = -1;   // questions to answer, the first ones; -1: all
  int ranks = 0;
};

// A new one for each evaluation: a run's is in its folder, named as the weights are; the run's own files stay as the
// run has left them.
fs::path result_folder(const ModelSession& session, const ranks::ModelChoice& choice) {
  const auto* doing = "making the folder of the results";
  if (choice.run.empty()) return session.rank().new_folder(doing, session.run_dir(), session.name() + "-eval");
  return session.rank().new_folder(doing, fs::path(choice.run) / "evaluations", fs::path(choice.weights).filename(),
                                   "take the right to write to the run's folder, or evaluate a copy of it");
}

std::string text_of(const ModelSession::Evaluated& evaluated, const std::string& split) {
  const auto& [loss, answers] = evaluated;
  auto text = cat(split, ": loss ", number_text(loss.loss), " over ", thousands(loss.samples),
                  plural(loss.samples, " sample in ", " samples in "), duration_text(loss.runtime_s), "\n");
  std::vector<std::string> figures;
  for (const auto& [name, value] : loss.scores) figures.push_back(cat(name, " ", number_text(value)));
  if (!figures.empty()) text += cat(split, ": ", join(figures), "\n");
  if (answers.samples == 0) return text;
  std::vector<std::string> scores;
  for (const auto& [name, value] : answers.scores) scores.push_back(cat(name, " ", number_text(value)));
  return text + cat(split, ": ", scores.empty() ? "no scores" : join(scores), " over ", thousands(answers.samples),
                    plural(answers.samples, " answer in ", " answers in "), duration_text(answers.runtime_s), "\n");
}

void write(const fs::path& folder, const std::string& split, const ranks::ModelChoice& choice,
           const ModelSession::Evaluated& evaluated) {
  const auto& [loss, answers] = evaluated;
  Json json{{"split", split}, {"loss", loss.loss}, {"samples", loss.samples}, {"answers", answers.samples}};
  if (!choice.run.empty()) json["weights"] = choice.weights;
  for (const auto& [name, value] : loss.scores) json[name] = value;
  for (const auto& [name, value] : answers.scores) json[name] = value;
  json["loss_runtime_s"] = loss.runtime_s;
  json["answers_runtime_s"] = answers.runtime_s;
  write_file(folder / cat("evaluation-", split, ".json"), json.dump(2) + "\n");
  if (answers.samples > 0)
    write_file(folder / cat("predictions-", split, ".json"), execution::predictions_text(answers.answers));
}

int evaluate(ModelSession& session, const EvalArguments& given, const ranks::ModelChoice& choice) {
  const auto evaluated = session.evaluate(given.split, given.samples);
  const bool is_first = session.rank().first();
  if (is_first) terminal::print(text_of(evaluated, given.split));  // before a disk can be full
  const auto folder = result_folder(session, choice);
  if (is_first) {
    write_file(folder / "config.toml", session.configuration());
    write(folder, given.split, choice, evaluated);
    terminal::print(cat("results: ", folder.string(), "\n"));
    std::fflush(stdout);
  }
  return static_cast<int>(ExitCode::success);
}

/// capstan eval CONFIG: loss and scores of a base model or a run, without training. Writes evaluation-SPLIT.json and
/// predictions-SPLIT.json into a new folder: for a run <run>/evaluations/<weights>.
int run(const command::Call& call) {
  command::Arguments arguments;
  EvalArguments given;
  arguments.configuration(
      given.config, given.overrides,
      "configuration file (TOML), a run's folder or checkpoint, or a Hugging Face model's folder or hub id");
  arguments.ranks(given.ranks);
  arguments.value("--split", given.split, "eval or train (default eval)").one_of({"train", "eval"});
  arguments.value("--samples", given.samples, "questions to answer, the first ones; -1 (default): all")
      .range(-1, std::int64_t{1} << 40);
  if (const auto code = arguments.read(call)) return *code;
  const bool is_configuration = std::filesystem::path(given.config).extension() == ".toml";
  if (is_configuration && !is_there(given.config)) {
    throw Error(cat("there is no ", given.config),
                "name a configuration (TOML), a run's folder or one of its checkpoints, or a Hugging Face model");
  }
  ranks::ModelChoice choice{given.config, {}, {}, {}};
  if (!is_configuration && !is_file(given.config)) choice = ranks::choose_model(given.config, call);
  return ranks::with_model({call, choice.config, given.overrides, given.ranks, false, given.split}, choice,
                           ranks::ModelUse::evaluate,
                           [&](ModelSession& session) { return evaluate(session, given, choice); });
}

}  // namespace

CAPSTAN_COMMAND("eval", "0.1.0", "loss and scores of a base model, a run or a checkpoint, without training", run)

}  // namespace eval
