#include "record.h"

#include "line.h"

#include <string>

namespace jsonl {
namespace {

constexpr const char* forms =
    R"(a line is {"prompt": …, "completion": …}, {"messages": [{"role": …, "content": …}, …]} or {"text": …})";

void read_messages(const Line& line, const Turns& turns, Record& record) {
  const auto messages = line.messages(line.json().at("messages"), "messages");
  if (!line.add_turns(messages, turns, true, record)) {
    line.fail("'messages' hold no message of the role 'assistant': nothing to learn",
              "add the answer, or take the line out");
  }
  if (messages.back().role == "assistant") record.reference = messages.back().content;
}

}  // namespace

Record read_record(const MappedLines& file, std::int64_t index, const Turns& turns) {
  const Line line(file, index, forms);
  if (line.has("chosen") || line.has("rejected")) {
    line.fail("the line has an answer that is preferred and one that is not, and pairs are not asked for",
              "set data.pairs = true");
  }
  const int kinds = static_cast<int>(line.has("messages")) + static_cast<int>(line.has("text")) +
                    static_cast<int>(line.has("prompt") || line.has("completion"));
  if (kinds != 1) line.fail(kinds == 0 ? "none of the keys is known" : "the line is of several kinds at once");
  Record record;
  record.id = line.id();
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
