#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/json.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/ranks/model_session.h>

#include <cstdio>
#include <iostream>

#include "prompts.h"

namespace generate {
namespace {

using namespace capstan;
using ranks::ModelSession;

PromptLine json_prompt(const std::string& line, std::int64_t number) {
  const auto json = try_parse_json(line);
  if (!json.is_object() || !json.contains("prompt") || !json.at("prompt").is_string()) {
    throw Error(cat("line ", number, " of the input is not a JSON object with a prompt"),
                R"(write one object a line, such as {"prompt": "The capital of France is"})");
  }
  return {json.at("prompt").text(), json.contains("id") ? json.at("id").dump() : std::string()};
}

struct GenerateArguments {
  std::string model;                 // see choose_model
  std::vector<std::string> prompts;  // none: they come from standard input, one a line
  std::vector<std::string> overrides;
  bool json = false;  // standard input and output are JSON lines
  int ranks = 0;
};

std::string line_of(const Json& json) { return json.dump(); }

// The first rank reads, all ranks know.
std::vector<PromptLine> shared_prompts(const GenerateArguments& given, const ModelSession& session) {
  const auto text = session.rank().from_first("reading the prompts", [&] {
    std::vector<PromptLine> lines;
    for (const auto& prompt : given.prompts) lines.push_back({prompt, {}});
    if (lines.empty()) lines = read_prompts(std::cin, given.json);
    auto pairs = Json::array();
    for (const auto& line : lines) pairs.push_back({line.text, line.id});
    return line_of(pairs);
  });
  std::vector<PromptLine> all;
  for (const auto& pair : Json::parse(text)) all.push_back({pair.at(0).text(), pair.at(1).text()});
  return all;
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
    terminal::print(line_of(line) + "\n");
  }
  std::fflush(stdout);
}

int answer(ModelSession& session, const GenerateArguments& given) {
  const auto lines = shared_prompts(given, session);
  std::vector<std::string> texts;
  for (const auto& line : lines) texts.push_back(line.text);
  const auto answers = session.generate(texts);
  if (session.rank().first()) print(lines, answers, given.json);
  return static_cast<int>(ExitCode::success);
}

/// capstan generate MODEL: answers prompts.
int run(const command::Call& call) {
  command::Arguments arguments;
  GenerateArguments given;
  arguments
      .value("model", given.model,
             "a Hugging Face model folder or an id of the hub in its cache, a run's folder or one of its checkpoints")
      .required();
  arguments.texts("prompts", given.prompts, "prompts; none: one a line from standard input");
  arguments.flag("--json", given.json, R"(JSON lines: {"prompt": ..., "id": ...} in, with "answer" out)");
  arguments.values("--set", given.overrides,
                   "options of a configuration: train.max_new_tokens=100 train.temperature=0.7 train.top_p=0.9 "
                   "run.seed=1 strategy.fsdp.mode=full_shard");
  arguments.ranks(given.ranks);
  if (const auto code = arguments.read(call)) return *code;
  return ranks::with_model({call, {}, given.overrides, given.ranks}, ranks::choose_model(given.model, call),
                           ranks::ModelUse::generate, [&](ModelSession& session) { return answer(session, given); });
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

CAPSTAN_COMMAND("generate", "0.1.0", "answer prompts: arguments, or the lines of standard input", run)

}  // namespace generate
