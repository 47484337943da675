#include "record.h"

#include "keys.h"
#include "line.h"
#include "rendered_record.h"

#include <capstan/base/text.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace jsonl {
namespace {

using capstan::cat;

constexpr const char* forms =
    R"(a line is {"prompt": …, "completion": …}, {"messages": [{"role": …, "content": …}, …]}, {"text": …}, )"
    R"({"conversations": [{"from": …, "value": …}, …]} or {"instruction": …, "output": …}; data.columns names other )"
    R"(columns)";

[[noreturn]] void refuse_unlearned(const Line& line, const char* key, bool has_answer) {
  line.fail(has_answer ? "all messages of the role 'assistant' have weight 0: nothing to learn"
                       : cat("'", key, "' hold no message of the role 'assistant': nothing to learn"),
            "add the answer, or take the line out");
}

void read_messages(const Line& line, const char* key, const Turns& turns, Record& record) {
  const auto messages = line.messages(key, record.others, turns.by_model);
  if (!turns.by_model) line.add_turns(messages, turns, true, record);
  if (!has_answer(messages)) {
    refuse_unlearned(line, key, std::any_of(messages.begin(), messages.end(), [](const auto& one) {
                       return one.role == "assistant";
                     }));
  }
  if (turns.by_model) return add_rendering(line, messages, turns, record);
  const auto& last = messages.back();
  if (last.role == "assistant" && last.is_learned) record.reference = last.content;
}

bool is_list(const Line& line, const char* key) { return line.has(key) && line.json().at(key).is_array(); }

// A prompt and what follows it may be lists of messages.
bool has_lists(const Line& line) { return is_list(line, "prompt") || is_list(line, "completion"); }

void read_completion(const Line& line, const Turns& turns, Record& record) {
  if (turns.by_model && is_list(line, "prompt") && is_list(line, "completion")) {
    const auto answer = line.messages("completion", record.others, true);
    if (!has_answer(answer)) refuse_unlearned(line, "completion", false);
    return add_rendering(line, after_prompt(line.messages("prompt", record.others, true), answer), turns, record);
  }
  record.pieces.push_back({line.text("prompt"), false});
  record.pieces.push_back({line.text("completion"), true});
  record.reference = record.pieces.back().text;
  if (record.reference.empty()) line.fail("'completion' is empty", "give it a text, or take the line out");
}

void read_text(const Line& line, Record& record) {
  record.is_text = true;
  record.pieces.push_back({line.text("text"), true});
  if (record.pieces.back().text.empty()) line.fail("'text' is empty", "take the line out");
}

Message message_of(const char* role, const std::string& content) {
  return {role, content, true, {{"role", role}, {"content", content}}};
}

// Alpaca's form. With a template it is a conversation of two messages.
void read_instruction(const Line& line, const Turns& turns, Record& record) {
  auto prompt = line.text("instruction");
  const auto input = line.has("input") ? line.text("input") : std::string();
  if (!input.empty()) prompt += "\n\n" + input;
  record.reference = line.text("output");
  if (record.reference.empty()) line.fail("'output' is empty", "give it a text, or take the line out");
  if (turns.by_model) {
    return add_rendering(line, {message_of("user", prompt), message_of("assistant", record.reference)}, turns, record);
  }
  if (!turns.empty()) {
    line.add_turns({{"user", prompt}, {"assistant", record.reference}}, turns, true, record);
    return;
  }
  record.pieces.push_back({prompt + "\n\n", false});
  record.pieces.push_back({record.reference, true});
}

/// A form: the keys that show it, and what a line of it may have.
struct Form {
  const char* name;
  std::vector<const char*> keys;
  const capstan::config::FileKeys& (*table)();
};

const std::vector<Form>& known_forms() {
  static const std::vector<Form> known{{"messages", {"messages"}, keys_of_conversation},
                                       {"text", {"text"}, keys_of_text},
                                       {"prompt and completion", {"prompt", "completion"}, keys_of_completion},
                                       {"conversations", {"conversations"}, keys_of_sharegpt},
                                       {"instruction and output", {"instruction"}, keys_of_alpaca}};
  return known;
}

// Other programs' forms are named; else the forms that there are.
[[noreturn]] void refuse_form(const Line& line) {
  std::vector<std::string> ignored;
  line.judge(keys_of_other_forms(), {}, ignored, false);
  line.fail("none of the keys is known");
}

const Form& form_of(const Line& line) {
  const Form* found = nullptr;
  for (const auto& form : known_forms()) {
    const auto is_there = [&](const char* key) { return line.has(key); };
    if (std::none_of(form.keys.begin(), form.keys.end(), is_there)) continue;
    // A text may have been made from what stands beside it.
    if (found && std::string_view(found->name) == "text" && form.table != keys_of_completion) continue;
    if (found) line.fail(cat("the line is of several kinds at once: ", found->name, ", and ", form.name));
    found = &form;
  }
  if (!found) refuse_form(line);
  return *found;
}

}  // namespace

Record read_record(const Rows& file, std::int64_t index, const Turns& turns, const std::vector<std::string>& numbers) {
  const Line line(file, index, forms);
  if (line.has("chosen") || line.has("rejected")) {
    line.fail("the line has an answer that is preferred and one that is not, and pairs are not asked for",
              "set data.pairs = true");
  }
  const Form& form = form_of(line);
  Record record;
  record.id = line.id();
  record.form = form.name;
  const std::string_view first = form.keys.front();
  const bool is_conversation = first != "text" && (first != "prompt" || has_lists(line));
  line.judge(form.table(), numbers, record.others, turns.by_model && is_conversation);
  if (first == "text") {
    read_text(line, record);
  } else if (first == "prompt") {
    read_completion(line, turns, record);
  } else if (first == "instruction") {
    read_instruction(line, turns, record);
  } else {
    read_messages(line, form.keys.front(), turns, record);
  }
  return record;
}

}  // namespace jsonl
