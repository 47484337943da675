#include "commands/generate_command.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/json.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/config/model_path.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/plugin_folders.h"
#include "comm/agree.h"
#include "commands/check_command.h"
#include "commands/model_choice.h"
#include "commands/run_command.h"
#include "inference/generate.h"
#include "train/of_job.h"

namespace capstan::commands {
namespace {

using Json = nlohmann::ordered_json;

PromptLine json_prompt(const std::string& line, std::int64_t number) {
  const auto json = try_parse_json<nlohmann::json>(line);
  if (!json.is_object() || !json.contains("prompt") || !json.at("prompt").is_string()) {
    throw Error(cat("line ", number, " of the input is not a JSON object with a prompt"),
                R"(write one object a line, such as {"prompt": "The capital of France is"})");
  }
  return {json.at("prompt"), json.contains("id") ? json.at("id").dump() : std::string()};
}

// The first rank reads, all ranks know.
std::vector<PromptLine> shared_prompts(const GenerateArguments& arguments, comm::Communicator& communicator) {
  const auto text = comm::from_first_rank(communicator, "reading the prompts", [&] {
    std::vector<PromptLine> lines;
    for (const auto& prompt : arguments.prompts) lines.push_back({prompt, {}});
    if (lines.empty()) lines = read_prompts(std::cin, arguments.json);
    auto pairs = Json::array();
    for (const auto& line : lines) pairs.push_back({line.text, line.id});
    return pairs.dump(-1, ' ', false, Json::error_handler_t::replace);
  });
  std::vector<PromptLine> all;
  for (const auto& pair : Json::parse(text)) all.push_back({pair.at(0), pair.at(1)});
  return all;
}

std::vector<inference::Prompt> tokenized(const std::vector<PromptLine>& lines, const session::Job& job) {
  std::vector<inference::Prompt> prompts;
  for (const auto& line : lines) {
    inference::Prompt prompt{job.samples.tokenizer.object->prefix_ids(), static_cast<std::int64_t>(prompts.size())};
    const auto ids = job.samples.tokenizer.object->encode(line.text);
    prompt.tokens.insert(prompt.tokens.end(), ids.begin(), ids.end());
    const auto length = static_cast<std::int64_t>(prompt.tokens.size());
    const auto number = prompts.size() + 1;
    if (length == 0) {
      throw Error(cat("prompt ", number, " is empty, and this tokenizer puts nothing before a text"),
                  "write something to continue from");
    }
    if (length > job.plugins.model_facts.max_positions) {
      throw Error(cat("prompt ", number, " has ", thousands(length), " tokens, the model has ",
                      thousands(job.plugins.model_facts.max_positions), " positions"),
                  "shorten it");
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

void print(const std::vector<PromptLine>& lines, const std::vector<std::string>& answers, bool json) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!json) {
      terminal::print(answers[i] + "\n");
      continue;
    }
    Json line;
    if (!lines[i].id.empty()) line["id"] = Json::parse(lines[i].id);
    line["prompt"] = lines[i].text;
    line["answer"] = answers[i];
    terminal::print(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  std::fflush(stdout);
}

}  // namespace

std::vector<PromptLine> read_prompts(std::istream& in, bool json) {
  std::vector<PromptLine> lines;
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (trim(line).empty()) continue;
    lines.push_back(json ? json_prompt(line, number) : PromptLine{line, {}});
  }
  return lines;
}

int generate_command(const GenerateArguments& arguments, const launch::Environment& env) {
  plugin::Host host(cli::plugin_folders(env), false, cli::trusts_writers(env));
  auto choice = choose_model(arguments.model, config::hub_cache(env), host);
  launch::RunArguments run;
  run.config = choice.config;
  run.overrides = std::move(choice.overrides);
  run.overrides.insert(run.overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  run.ranks = arguments.ranks;
  run.argc = arguments.argc;
  run.argv = arguments.argv;
  run.purpose = setup::Purpose::generate;
  run.weights = choice.weights;
  return run_ranks(run, env, [&](const session::Job& job, session::Session& session) {
    const auto lines = shared_prompts(arguments, *session.communicator);
    const auto answers = train::generator_of(job, session).answer_all(tokenized(lines, job));
    if (session.communicator->world().rank == 0) print(lines, answers, arguments.json);
    return static_cast<int>(ExitCode::success);
  });
}

void add_generate_command(CLI::App& app, cli::Chosen& chosen) {
  auto* command = app.add_subcommand("generate", "answer prompts: arguments, or the lines of standard input");
  const auto given = std::make_shared<GenerateArguments>();
  command
      ->add_option(
          "model", given->model,
          "a Hugging Face model folder or an id of the hub in its cache, a run's folder or one of its checkpoints")
      ->required();
  command->add_option("prompts", given->prompts, "prompts; none: one a line from standard input");
  command->add_flag("--json", given->json, R"(JSON lines: {"prompt": ..., "id": ...} in, with "answer" out)");
  command->add_option("--set", given->overrides,
                      "options of a configuration: train.max_new_tokens=100 train.temperature=0.7 train.top_p=0.9 "
                      "run.seed=1 strategy.fsdp.mode=full_shard");
  command->add_option("-n,--ranks", given->ranks, "start this many local ranks")->check(CLI::Range(1, 1 << 20));
  cli::choose_with(*command, chosen, [given](const cli::Process& process) {
    given->argc = process.argc;
    given->argv = process.argv;
    return generate_command(*given, process.env);
  });
}

}  // namespace capstan::commands
