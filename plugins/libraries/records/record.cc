#include "record.h"

#include "keys.h"
#include "line.h"

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

void read_messages(const Line& line, const char* key, const Turns& turns, Record& record) {
  const auto messages = line.messages(key, record.others);
  if (!line.add_turns(messages, turns, true, record)) {
    const bool has_answer =
        std::any_of(messages.begin(), messages.end(), [](const auto& message) { return message.role == "assistant"; });
    line.fail(has_answer ? "all messages of the role 'assistant' have weight 0: nothing to learn"
                         : cat("'", key, "' hold no message of the role 'assistant': nothing to learn"),
              "add the answer, or take the line out");
  }
  const auto& last = messages.back();
  if (last.role == "assistant" && last.is_learned) record.reference = last.content;
}

void read_completion(const Line& line, Record& record) {
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

// Alpaca's form. With a template it is a conversation of two messages.
void read_instruction(const Line& line, const Turns& turns, Record& record) {
  auto prompt = line.text("instruction");
  const auto input = line.has("input") ? line.text("input") : std::string();
  if (!input.empty()) prompt += "\n\n" + input;
  record.reference = line.text("output");
  if (record.reference.empty()) line.fail("'output' is empty", "give it a text, or take the line out");
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
  line.judge(keys_of_other_forms(), {}, ignored);
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
  line.judge(form.table(), numbers, record.others);
  const std::string_view first = form.keys.front();
  if (first == "text") {
    read_text(line, record);
  } else if (first == "prompt") {
    read_completion(line, record);
  } else if (first == "instruction") {
    read_instruction(line, turns, record);
  } else {
    read_messages(line, form.keys.front(), turns, record);
  }
  return record;
}

}  // namespace jsonl
