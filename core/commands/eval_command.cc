#include "commands/eval_command.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/config/model_path.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/plugin_folders.h"
#include "comm/agree.h"
#include "commands/check_command.h"
#include "commands/model_choice.h"
#include "commands/run_command.h"
#include "config/to_toml.h"
#include "inference/evaluate.h"
#include "observe/run_folder.h"
#include "train/of_job.h"

namespace capstan::commands {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

const data::DataSource& source_of(const session::Job& job, const std::string& split) {
  const auto& source = split == "train" ? job.samples.train : job.samples.eval;
  if (!source) {
    throw Error(cat("the configuration names no data for the split '", split, "'"),
                cat("set data.", split, ", or use --split ", split == "train" ? "eval" : "train"));
  }
  return *source;
}

// What is evaluated, when it is a run's: its folder, and the weights in it.
struct OfRun {
  fs::path folder;
  fs::path weights;
};

// A new one for each evaluation: of a run, named as the weights are, in the run's folder, whose own files stay as the
// run has left them.
fs::path result_folder(const session::Job& job, const OfRun& run, comm::Communicator& communicator) {
  return comm::from_first_rank(communicator, "making the folder of the results", [&] {
    if (run.folder.empty()) return observe::RunFolder::make(job.config.run->dir, job.config.name + "-eval").string();
    return observe::RunFolder::make_new(run.folder / "evaluations", run.weights.filename(),
                                        "take the right to write to the run's folder, or evaluate a copy of it")
        .string();
  });
}

std::string text_of(const inference::Evaluation& loss, const inference::Evaluation& answers, const std::string& split) {
  auto text = cat(split, ": loss ", number_text(loss.loss), " over ", thousands(loss.samples),
                  plural(loss.samples, " sample in ", " samples in "), duration_text(loss.runtime_s), "\n");
  if (answers.samples == 0) return text;
  std::vector<std::string> scores;
  for (const auto& [name, value] : answers.scores) scores.push_back(cat(name, " ", number_text(value)));
  return text + cat(split, ": ", scores.empty() ? "no scores" : join(scores), " over ", thousands(answers.samples),
                    plural(answers.samples, " answer in ", " answers in "), duration_text(answers.runtime_s), "\n");
}

void write(const fs::path& folder, const std::string& split, const OfRun& run, const inference::Evaluation& loss,
           const inference::Evaluation& answers) {
  Json json{{"split", split}, {"loss", loss.loss}, {"samples", loss.samples}, {"answers", answers.samples}};
  if (!run.folder.empty()) json["weights"] = run.weights.string();
  for (const auto& [name, value] : answers.scores) json[name] = value;
  json["loss_runtime_s"] = loss.runtime_s;
  json["answers_runtime_s"] = answers.runtime_s;
  write_file(folder / cat("evaluation-", split, ".json"), json.dump(2) + "\n");
  if (answers.samples > 0)
    write_file(folder / cat("predictions-", split, ".json"), inference::predictions_text(answers.answers));
}

int evaluate(const session::Job& job, session::Session& session, const EvalArguments& arguments, const OfRun& run) {
  const auto& source = source_of(job, arguments.split);
  const auto feed = train::feed_of(job);
  auto evaluator = train::evaluator_of(job, session, feed);
  const auto loss = evaluator.loss(source);
  const auto answers = evaluator.answers(source, arguments.samples);
  const bool is_first = session.communicator->world().rank == 0;
  if (is_first) terminal::print(text_of(loss, answers, arguments.split));  // before a disk can be full
  const auto folder = result_folder(job, run, *session.communicator);
  if (is_first) {
    write_file(folder / "config.toml", config::to_toml(job.tables()));
    write(folder, arguments.split, run, loss, answers);
    terminal::print(cat("results: ", folder.string(), "\n"));
    std::fflush(stdout);
  }
  return static_cast<int>(ExitCode::success);
}

}  // namespace

int eval_command(const EvalArguments& arguments, const launch::Environment& env) {
  launch::RunArguments run;
  run.config = arguments.config;
  OfRun of_run;
  if (!is_there(arguments.config)) {
    throw Error(cat("there is no ", arguments.config),
                "name a configuration (TOML), a run's folder or one of its checkpoints");
  }
  if (is_folder(arguments.config)) {
    plugin::Host host(cli::plugin_folders(env), false, cli::trusts_writers(env));
    auto choice = choose_model(arguments.config, config::hub_cache(env), host);
    run.config = choice.config;
    run.overrides = std::move(choice.overrides);
    run.weights = choice.weights;
    of_run = {choice.run, choice.weights};
  }
  run.overrides.insert(run.overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  run.ranks = arguments.ranks;
  run.argc = arguments.argc;
  run.argv = arguments.argv;
  run.purpose = setup::Purpose::evaluate;
  return run_ranks(run, env, [&](const session::Job& job, session::Session& session) {
    return evaluate(job, session, arguments, of_run);
  });
}

void add_eval_command(CLI::App& app, cli::Chosen& chosen) {
  auto* command =
      app.add_subcommand("eval", "loss and scores of a base model, a run or a checkpoint, without training");
  const auto given = std::make_shared<EvalArguments>();
  cli::add_config_arguments(*command, {given->config, given->overrides, &given->ranks}, "start this many local ranks");
  command->get_option("config")->description("configuration file (TOML), or a run's folder or checkpoint");
  command->add_option("--split", given->split, "eval or train (default eval)")->check(CLI::IsMember({"train", "eval"}));
  command->add_option("--samples", given->samples, "questions to answer, the first ones; -1 (default): all")
      ->check(CLI::Range(-1LL, 1LL << 40));
  cli::choose_with(*command, chosen, [given](const cli::Process& process) {
    given->argc = process.argc;
    given->argv = process.argv;
    return eval_command(*given, process.env);
  });
}

}  // namespace capstan::commands
