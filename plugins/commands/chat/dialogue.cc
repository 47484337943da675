#include "dialogue.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <utility>

#include "asking/conversation.h"

namespace chat {

using namespace capstan;

namespace {

constexpr const char* help =
    "/reset        begin a new conversation\n"
    "/system TEXT  the system's message from now on; without a text there is none\n"
    "/exit         end, as Ctrl-D does; Ctrl-C stops an answer\n"
    "A line that ends with \\ continues in the next one.\n";

// "/reset", "/system", … A path is none.
std::string command_in(const std::string& line) {
  const auto word = line.substr(0, line.find_first_of(" \t\n"));
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return word.size() > 1 && word[0] == '/' && std::all_of(word.begin() + 1, word.end(), is_letter) ? word
                                                                                                   : std::string();
}

}  // namespace

Dialogue::Dialogue(Model model, Console console, std::string system)
    : model_(std::move(model)), console_(std::move(console)), system_(std::move(system)) {}

std::optional<std::string> Dialogue::read() const {
  const auto line = [&](const char* mark) {
    if (console_.is_terminal) console_.show(mark);
    std::string text;
    return std::getline(console_.in, text) ? std::optional(text) : std::nullopt;
  };
  auto text = line("> ");
  while (text && text->ends_with('\\')) {
    text->back() = '\n';
    *text += line(". ").value_or("");
  }
  if (!text && console_.is_terminal) console_.show("\n");
  return text;
}

// Whether there is more to read.
bool Dialogue::obey(const std::string& line) {
  const auto command = command_in(line);
  if (command == "/exit") return false;
  if (command == "/reset") {
    messages_.clear();
    console_.say("a new conversation\n");
  } else if (command == "/system") {
    system_ = trim(line.substr(command.size()));
    console_.say(system_.empty() ? "there is no system's message any more\n" : "the system's message is set\n");
  } else {
    console_.say(command == "/help" ? help : cat("there is no ", command, "; begin a question with a space\n", help));
  }
  return true;
}

std::string Dialogue::written(const std::vector<Json>& messages) const {
  Json all(messages);
  asking::put_system(all, system_);
  return model_.write({{"messages", all}});
}

// The question is the last message.
std::string Dialogue::fitted() {
  constexpr std::int64_t parts = 4;  // one of which an answer gets at least, while there is something to leave out
  const auto room = std::max<std::int64_t>(1, std::min(model_.max_new_tokens, model_.positions / parts));
  auto kept = messages_;
  for (;;) {
    auto text = written(kept);
    const auto tokens = model_.count(text);
    if (kept.size() > 2 && tokens + room > model_.positions) {
      kept.erase(kept.begin(), kept.begin() + 2);  // a question and its answer
      continue;
    }
    if (tokens > model_.positions) {
      throw Error(cat("the question has ", thousands(tokens), " tokens with what the template writes, the model has ",
                      thousands(model_.positions), " positions"),
                  "ask a shorter one");
    }
    if (const auto fewer = messages_.size() - kept.size(); fewer > 0) {
      console_.say(cat("the oldest ", fewer, " messages are left out: the model has ", thousands(model_.positions),
                       " positions\n"));
    }
    messages_ = std::move(kept);
    return text;
  }
}

std::optional<std::string> Dialogue::next() {
  while (const auto line = read()) {
    if (trim(*line).empty()) continue;
    if (!command_in(*line).empty()) {
      if (!obey(*line)) return {};
      continue;
    }
    messages_.push_back(asking::message("user", *line));
    try {
      return fitted();
    } catch (const Error& error) {
      messages_.pop_back();
      const auto& fault = error.diagnostics().front();
      console_.say(cat(fault.what, fault.fix.empty() ? "" : cat("\n    fix: ", fault.fix), "\n"));
    }
  }
  return {};
}

void Dialogue::add_answer(const std::string& text) { messages_.push_back(asking::message("assistant", text)); }

}  // namespace chat
