#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/ranks/model_session.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <optional>

#include "asking/conversation.h"
#include "asking/way.h"
#include "dialogue.h"
#include "growing_answer.h"
#include "interruptible.h"

namespace chat {
namespace {

using namespace capstan;
using ranks::ModelSession;

struct ChatArguments {
  std::string model;  // see choose_model
  asking::Given questions;
  std::vector<std::string> overrides;
  int ranks = 0;
};

void show(std::string_view text) {
  terminal::print(text);
  std::fflush(stdout);
}

bool on_terminal() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1; }

Dialogue dialogue_for(const ModelSession& session, const chat_template::Source& source, const ChatArguments& given) {
  return {{[&source](const Json& conversation) { return chat_template::ask(source, conversation); },
           [&session](const std::string& text) { return std::ssize(session.tokenizer().encode(text)); },
           session.positions(), session.max_new_tokens()},
          {std::cin, on_terminal(), show, terminal::print_error},
          given.questions.system};
}

// Why an answer has no end of its own; empty: it has one.
std::string cut_text(const GrowingAnswer& answer, std::int64_t prompt, const ModelSession& session) {
  if (answer.is_stopped()) return "(stopped)\n";
  if (prompt + answer.tokens() > session.positions())
    return cat("(cut: the model's ", thousands(session.positions()), " positions are full)\n");
  if (answer.tokens() < session.max_new_tokens()) return {};
  return cat("(cut after ", counted(answer.tokens(), "token"),
             ": call it with --set train.max_new_tokens=", 2 * session.max_new_tokens(), ")\n");
}

// Every rank generates the answer, the first one shows it as it comes.
std::string answer(ModelSession& session, const std::string& prompt, const std::string& turn_end) {
  const bool is_first = session.rank().first();
  const Interruptible interruptible;
  const auto ids = session.tokenizer().encode(prompt);
  GrowingAnswer growing(asking::answer_end(turn_end, session.tokenizer()), turn_end,
                        is_first ? std::function<void(std::string_view)>(show) : nullptr,
                        [&] { return interruptible.asked(); });
  session.generate({ids}, growing.end());
  if (!is_first) return {};
  growing.finish();
  show("\n");
  terminal::print_error(cut_text(growing, std::ssize(ids), session));
  return growing.text();
}

// What a person should know before the first question. Returns what ends a turn.
std::string begin(const asking::Way& way, const ChatArguments& given) {
  const auto head = asking::head_of(*way.source, given.questions);
  if (way.is_run && !way.has_learned && given.questions.file.empty())
    terminal::print_error("this run was trained without the model's chat template, by which it is asked here\n");
  if (on_terminal())
    terminal::print_error(cat(given.model, " is asked by ", head.template_file, "; /help says what you can do\n"));
  return head.turn_end;
}

// The first rank reads and writes, all ranks answer.
int talk(ModelSession& session, const asking::Way& way, const ChatArguments& given) {
  const auto& rank = session.rank();
  std::optional<Interruptible> only_first_ends;  // Ctrl-C goes to all ranks
  if (!rank.first()) only_first_ends.emplace();
  const auto turn_end = rank.from_first("reading the chat template", [&] { return begin(way, given); });
  auto dialogue = dialogue_for(session, *way.source, given);
  while (true) {
    const auto prompt = rank.from_first("reading a question", [&] { return dialogue.next().value_or(""); });
    if (prompt.empty()) return static_cast<int>(ExitCode::success);
    dialogue.add_answer(answer(session, prompt, turn_end));
  }
}

/// capstan chat MODEL: a conversation on a terminal, or with the lines of standard input.
int run(const command::Call& call) {
  command::Arguments arguments;
  ChatArguments given;
  arguments
      .value("model", given.model,
             "a Hugging Face model folder or an id of the hub in its cache, a run's folder or one of its checkpoints")
      .required();
  asking::declare(arguments, given.questions);
  arguments.values("--set", given.overrides,
                   "options of a configuration: train.max_new_tokens=2000 train.temperature=0.7 train.top_p=0.9 "
                   "run.seed=1 strategy.fsdp.mode=full_shard");
  arguments.ranks(given.ranks);
  if (const auto code = arguments.read(call)) return *code;
  auto choice = ranks::choose_model(given.model, call);
  const auto way = asking::way_of(given.model, choice.config, call, given.questions);
  if (!way.source) {
    throw Error(cat(given.model, " has no chat template: it continues texts"),
                cat("call `capstan generate ", given.model, " \"TEXT\"`, or name a template: --template FILE"));
  }
  choice.overrides.emplace_back(asking::long_answers);
  return ranks::with_model({call, {}, given.overrides, given.ranks}, choice, ranks::ModelUse::generate,
                           [&](ModelSession& session) { return talk(session, way, given); });
}

}  // namespace

CAPSTAN_COMMAND("chat", "0.1.0", "talk with a model on a terminal, by its chat template", run)

}  // namespace chat
