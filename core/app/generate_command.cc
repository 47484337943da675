#include "app/generate_command.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/text.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/check_command.h"
#include "app/hub_cache.h"
#include "app/model_choice.h"
#include "app/run_command.h"
#include "train/generate.h"
#include "train/of_job.h"

namespace capstan::app {
namespace {

using Json = nlohmann::ordered_json;

PromptLine json_prompt(const std::string& line, std::int64_t number) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("prompt") || !json.at("prompt").is_string()) {
    throw Error(cat("line ", number, " of the input is no JSON object with a prompt"),
                R"(write one object a line, such as {"prompt": "The capital of France is"})");
  }
  return {json.at("prompt"), json.contains("id") ? json.at("id").dump() : std::string()};
}

// The first rank reads, all ranks know.
std::vector<PromptLine> shared_prompts(const GenerateArguments& arguments, comm::Communicator& communicator) {
  auto mine = Json::array();
  if (communicator.world().rank == 0) {
    std::vector<PromptLine> lines;
    for (const auto& prompt : arguments.prompts) lines.push_back({prompt, {}});
    if (lines.empty()) lines = read_prompts(std::cin, arguments.json);
    for (const auto& line : lines) mine.push_back({line.text, line.id});
  }
  std::vector<PromptLine> all;
  const auto text = communicator.exchange(mine.dump(-1, ' ', false, Json::error_handler_t::replace)).front();
  for (const auto& pair : Json::parse(text)) all.push_back({pair.at(0), pair.at(1)});
  return all;
}

std::vector<train::Prompt> tokenized(const std::vector<PromptLine>& lines, const setup::Job& job) {
  std::vector<train::Prompt> prompts;
  for (const auto& line : lines) {
    train::Prompt prompt{job.samples.tokenizer.object->prefix_ids(), static_cast<std::int64_t>(prompts.size())};
    const auto ids = job.samples.tokenizer.object->encode(line.text);
    prompt.tokens.insert(prompt.tokens.end(), ids.begin(), ids.end());
    const auto length = static_cast<std::int64_t>(prompt.tokens.size());
    const auto number = prompts.size() + 1;
    if (length == 0) {
      throw Error(cat("prompt ", number, " is empty, and this tokenizer puts nothing before a text"),
                  "write something to go on from");
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
      std::printf("%s\n", answers[i].c_str());
      continue;
    }
    Json line;
    if (!lines[i].id.empty()) line["id"] = Json::parse(lines[i].id);
    line["prompt"] = lines[i].text;
    line["answer"] = answers[i];
    std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
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

int generate_command(const GenerateArguments& arguments, const Environment& env) {
  plugin::Host host(plugin_folders(env));
  auto choice = choose_model(arguments.model, hub_cache(env), host);
  RunArguments run;
  run.config = choice.config;
  run.overrides = std::move(choice.overrides);
  run.overrides.insert(run.overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  run.ranks = arguments.ranks;
  run.argc = arguments.argc;
  run.argv = arguments.argv;
  run.purpose = setup::Purpose::generate;
  run.weights = choice.weights;
  return run_ranks(run, env, [&](const setup::Job& job, setup::Session& session) {
    const auto lines = shared_prompts(arguments, *session.communicator);
    const auto answers = train::generator_of(job, session).answer_all(tokenized(lines, job));
    if (session.communicator->world().rank == 0) print(lines, answers, arguments.json);
    return static_cast<int>(ExitCode::success);
  });
}

}  // namespace capstan::app
