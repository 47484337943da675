#include "pair.h"

#include "keys.h"
#include "line.h"
#include "rendered_record.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace jsonl {
namespace {

using capstan::cat;

constexpr const char* pair_forms =
    R"(with data.pairs a line is {"prompt": …, "chosen": …, "rejected": …}, of texts or of lists of messages)";

using Messages = std::vector<Message>;

Record of_texts(const Line& line, const char* answer) {
  Record record;
  record.pieces.push_back({line.text("prompt"), false});
  record.pieces.push_back({line.text(answer), true});
  record.reference = record.pieces.back().text;
  if (record.reference.empty()) line.fail(cat("'", answer, "' is empty"), "give it a text, or take the line out");
  return record;
}

Record of_messages(const Line& line, const Turns& turns, const Messages& prompt, const Messages& answer,
                   const char* name) {
  Record record;
  if (!turns.by_model) {
    line.add_turns(prompt, turns, false, record);
    line.add_turns(answer, turns, true, record);
  }
  if (!has_answer(answer)) {
    line.fail(cat("'", name, "' has no message of the role 'assistant' after the prompt: nothing to learn"),
              "add the answer, or take the line out");
  }
  if (turns.by_model) {
    add_rendering(line, after_prompt(prompt, answer), turns, record, std::string_view(name) == "chosen" ? 0 : 1);
    return record;
  }
  if (answer.back().role == "assistant" && answer.back().is_learned) record.reference = answer.back().content;
  return record;
}

bool is_same(const Message& a, const Message& b) {
  return a.role == b.role && a.content == b.content && a.json == b.json;
}

/// Takes the messages that both begin with out of both.
Messages shared_beginning(Messages& a, Messages& b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end(), is_same).first;
  const auto count = end - a.begin();
  Messages shared(a.begin(), end);
  a.erase(a.begin(), end);
  b.erase(b.begin(), b.begin() + count);
  return shared;
}

Pair of_conversations(const Line& line, const Turns& turns) {
  std::vector<std::string> others;
  const auto messages = [&](const char* key) { return line.messages(key, others, turns.by_model); };
  auto chosen = messages("chosen"), rejected = messages("rejected");
  const auto prompt = line.has("prompt") ? messages("prompt") : shared_beginning(chosen, rejected);
  Pair pair{of_messages(line, turns, prompt, chosen, "chosen"), of_messages(line, turns, prompt, rejected, "rejected")};
  pair.chosen.others = std::move(others);
  return pair;
}

// Texts and lists of messages in one line.
[[noreturn]] void refuse_mixture(const Line& line) {
  if (line.has("prompt") && line.json().at("prompt").is_string()) {
    line.fail("'prompt' is a text, but the answers are not",
              "remove 'prompt' if the conversations begin with it, or write it as a list of messages");
  }
  line.fail("some of 'prompt', 'chosen' and 'rejected' are texts and some are not");
}

}  // namespace

Pair read_pair(const Rows& file, std::int64_t index, const Turns& turns, const std::vector<std::string>& numbers) {
  const Line line(file, index, pair_forms);
  for (const auto* answer : {"chosen", "rejected"}) {
    if (!line.has(answer)) line.fail(cat("'", answer, "' is missing"));
  }
  for (const auto* other : {"completion", "messages", "text"}) {
    if (line.has(other)) line.fail(cat("the line has '", other, "', and is a pair"));
  }
  std::vector<std::string> others;
  const auto is_text = [&](const char* key) { return line.json().at(key).is_string(); };
  const int texts = static_cast<int>(is_text("chosen")) + static_cast<int>(is_text("rejected")) +
                    static_cast<int>(line.has("prompt") && is_text("prompt"));
  line.judge(keys_of_pair(), numbers, others, turns.by_model && texts == 0);
  if (line.json().at("chosen") == line.json().at("rejected"))
    line.fail("'chosen' and 'rejected' are the same: no answer is preferred", "take the line out");
  Pair pair;
  if (is_text("chosen") && is_text("rejected")) {
    pair = {of_texts(line, "chosen"), of_texts(line, "rejected")};
  } else if (texts == 0) {
    pair = of_conversations(line, turns);
  } else {
    refuse_mixture(line);
  }
  pair.chosen.id = pair.rejected.id = line.id();
  pair.chosen.others.insert(pair.chosen.others.end(), others.begin(), others.end());
  return pair;
}

}  // namespace jsonl
