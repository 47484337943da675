#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/json.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/ranks/model_session.h>

#include <cstdio>
#include <iostream>

#include "asking/conversation.h"
#include "asking/way.h"
#include "prompts.h"

namespace generate {
namespace {

using namespace capstan;
using ranks::ModelSession;

struct GenerateArguments {
  std::string model;                 // see choose_model
  std::vector<std::string> prompts;  // none: they come from standard input, one a line
  std::vector<std::string> overrides;
  bool json = false;  // standard input and output are JSON lines
  bool chat = false;
  bool plain = false;
  asking::Given questions;
  int ranks = 0;
};

/// How a model is asked.
struct Request {
  const GenerateArguments& given;
  const asking::Way& way;
  bool asks = false;  // a prompt is a question that the template writes
};

/// What all ranks answer.
struct Asked {
  std::vector<PromptLine> lines;
  std::string turn_end;  // the template's
};

// A model's folder is asked by its template, a run as it was trained. A prompt of JSON lines says by its key what it
// is.
bool asks(const GenerateArguments& given, const asking::Way& way) {
  if (given.chat) return true;
  if (given.plain || given.json) return false;
  return !given.questions.empty() || way.has_learned || (way.source && !way.is_run);
}

// How prompts are read, where the command line does not say it.
std::string how_text(const Request& request) {
  const auto& given = request.given;
  if (given.chat || given.plain || given.json || !given.questions.empty()) return {};
  if (request.asks) return "asked by the chat template; --plain continues the text as it stands\n";
  if (!request.way.source) return "the model has no chat template: it continues the text\n";
  return "the run was trained without the model's chat template: it continues the text; --chat asks by the template\n";
}

// Prompts become questions, and conversations texts.
void write_conversations(Asked& asked, const Request& request) {
  const auto& system = request.given.questions.system;
  std::vector<Json> conversations;
  for (auto& line : asked.lines) {
    if (line.conversation.is_null() && request.asks)
      line.conversation["messages"].push_back(asking::message("user", line.text));
    if (line.conversation.is_null()) continue;
    asking::put_system(line.conversation["messages"], system);
    conversations.push_back(line.conversation);
  }
  if (conversations.empty()) {
    if (!request.given.json || asked.lines.empty() || request.given.questions.empty()) return;
    throw Error("--system, --template and --template-variable are for messages, and no line of the input has any",
                R"(write {"messages": …}, or add --chat, by which prompts are questions)");
  }
  if (!request.way.source) {
    throw Error(cat(request.given.model, " has no chat template, by which messages are written"),
                "name one with --template FILE, or give texts that the model continues");
  }
  asked.turn_end = asking::head_of(*request.way.source, request.given.questions).turn_end;
  const auto texts = chat_template::ask(*request.way.source, conversations);
  auto text = texts.begin();
  for (auto& line : asked.lines) {
    if (!line.conversation.is_null()) line.text = *text++;
  }
}

Asked read(const Request& request) {
  Asked asked;
  for (const auto& prompt : request.given.prompts) asked.lines.push_back({prompt, {}, {}});
  if (asked.lines.empty()) asked.lines = read_prompts(std::cin, request.given.json);
  write_conversations(asked, request);
  if (!asked.lines.empty()) terminal::print_error(how_text(request));
  return asked;
}

// The first rank reads, all ranks know.
Asked shared(const Request& request, const ModelSession& session) {
  const auto text = session.rank().from_first("reading the prompts", [&] {
    const auto asked = read(request);
    auto lines = Json::array();
    for (const auto& line : asked.lines) lines.push_back(Json::array({line.text, line.id, line.conversation}));
    return Json{{"lines", lines}, {"turn_end", asked.turn_end}}.dump();
  });
  const auto json = Json::parse(text);
  Asked asked{{}, json.at("turn_end").text()};
  for (const auto& line : json.at("lines")) asked.lines.push_back({line.at(0).text(), line.at(1).text(), line.at(2)});
  return asked;
}

// The text of a template has its begin token itself, and says what ends a turn.
std::vector<std::string> answers_to(const Asked& asked, ModelSession& session) {
  std::vector<std::string> texts;
  std::vector<std::vector<std::int64_t>> conversations;
  for (const auto& line : asked.lines) {
    if (line.conversation.is_null()) {
      texts.push_back(line.text);
    } else {
      conversations.push_back(session.tokenizer().encode(line.text));
    }
  }
  if (conversations.empty()) return session.generate(texts);
  auto answers = session.generate(conversations, asking::answer_end(asked.turn_end, session.tokenizer()));
  if (texts.empty()) return answers;
  const auto continued = session.generate(texts);
  std::vector<std::string> all;
  auto answer = answers.begin();
  auto next = continued.begin();
  for (const auto& line : asked.lines) all.push_back(line.conversation.is_null() ? *next++ : *answer++);
  return all;
}

int answer(ModelSession& session, const Request& request) {
  const auto asked = shared(request, session);
  const auto answers = answers_to(asked, session);
  for (std::size_t i = 0; session.rank().first() && i < answers.size(); ++i)
    terminal::print((request.given.json ? answered_line(asked.lines[i], answers[i]).dump() : answers[i]) + "\n");
  std::fflush(stdout);
  return static_cast<int>(ExitCode::success);
}

void declare(command::Arguments& arguments, GenerateArguments& given) {
  arguments
      .value("model", given.model,
             "a Hugging Face model folder or an id of the hub in its cache, a run's folder or one of its checkpoints")
      .required();
  arguments.texts("prompts", given.prompts, "prompts; none: one a line from standard input");
  const auto json = arguments.flag("--json", given.json,
                                   R"(JSON lines: {"prompt": ..., "id": ...}, or "messages" (and "tools"), which the )"
                                   R"(chat template writes, in; with "answer" out)");
  const auto chat = arguments.flag("--chat", given.chat,
                                   "a prompt is a question, written by the chat template (default where a model's "
                                   "folder has one, or a run was trained with one)");
  arguments.flag("--plain", given.plain, "a prompt is a text that the model continues as it stands")
      .not_with(chat)
      .not_with(json);
  asking::declare(arguments, given.questions);
  arguments.values("--set", given.overrides,
                   "options of a configuration: train.max_new_tokens=100 train.temperature=0.7 train.top_p=0.9 "
                   "run.seed=1 strategy.fsdp.mode=full_shard");
  arguments.ranks(given.ranks);
}

/// capstan generate MODEL: answers prompts.
int run(const command::Call& call) {
  command::Arguments arguments;
  GenerateArguments given;
  declare(arguments, given);
  if (const auto code = arguments.read(call)) return *code;
  if (given.plain && !given.questions.empty()) {
    throw Error("--plain continues a text, which no chat template writes",
                "leave it out, or --system, --template and --template-variable");
  }
  auto choice = ranks::choose_model(given.model, call);
  const auto way = asking::way_of(given.model, choice.config, call, given.questions);
  const Request request{given, way, asks(given, way)};
  if (request.asks && choice.config.empty()) choice.overrides.emplace_back(asking::long_answers);
  return ranks::with_model({call, {}, given.overrides, given.ranks}, choice, ranks::ModelUse::generate,
                           [&](ModelSession& session) { return answer(session, request); });
}

}  // namespace

CAPSTAN_COMMAND("generate", "0.1.0", "answer prompts: arguments, or the lines of standard input", run)

}  // namespace generate
