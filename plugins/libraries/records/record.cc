#include "record.h"

#include "keys.h"
#include "line.h"

#include <algorithm>
#include <string>
#include <vector>

namespace jsonl {
namespace {

constexpr const char* forms =
    R"(a line is {"prompt": …, "completion": …}, {"messages": [{"role": …, "content": …}, …]} or {"text": …})";

void read_messages(const Line& line, const Turns& turns, Record& record) {
  const auto messages = line.messages("messages", record.others);
  if (!line.add_turns(messages, turns, true, record)) {
    const bool has_answer =
        std::any_of(messages.begin(), messages.end(), [](const auto& message) { return message.role == "assistant"; });
    line.fail(has_answer ? "all messages of the role 'assistant' have weight 0: nothing to learn"
                         : "'messages' hold no message of the role 'assistant': nothing to learn",
              "add the answer, or take the line out");
  }
  const auto& last = messages.back();
  if (last.role == "assistant" && last.is_learned) record.reference = last.content;
}

// Other programs' forms are named; else the forms that there are.
[[noreturn]] void refuse_form(const Line& line) {
  std::vector<std::string> ignored;
  line.judge(keys_of_other_forms(), {}, ignored);
  line.fail("none of the keys is known");
}

}  // namespace

Record read_record(const Rows& file, std::int64_t index, const Turns& turns, const std::vector<std::string>& numbers) {
  const Line line(file, index, forms);
  if (line.has("chosen") || line.has("rejected")) {
    line.fail("the line has an answer that is preferred and one that is not, and pairs are not asked for",
              "set data.pairs = true");
  }
  const int kinds = static_cast<int>(line.has("messages")) + static_cast<int>(line.has("text")) +
                    static_cast<int>(line.has("prompt") || line.has("completion"));
  if (kinds == 0) refuse_form(line);
  if (kinds != 1) line.fail("the line is of several kinds at once");
  Record record;
  record.id = line.id();
  const auto& keys = line.has("messages") ? keys_of_conversation()
                     : line.has("text")   ? keys_of_text()
                                          : keys_of_completion();
  line.judge(keys, numbers, record.others);
  if (line.has("messages")) {
    read_messages(line, turns, record);
  } else if (line.has("text")) {
    record.is_text = true;
    record.pieces.push_back({line.text("text"), true});
    if (record.pieces.back().text.empty()) line.fail("'text' is empty", "take the line out");
  } else {
    record.pieces.push_back({line.text("prompt"), false});
    record.pieces.push_back({line.text("completion"), true});
    record.reference = record.pieces.back().text;
    if (record.reference.empty()) line.fail("'completion' is empty", "give it a text, or take the line out");
  }
  return record;
}

}  // namespace jsonl
