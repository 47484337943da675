#include "record.h"

#include <capstan/base/error.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace jsonl {
namespace {

using capstan::cat;
using capstan::Error;
using Json = nlohmann::json;

constexpr const char* forms =
    R"(a line is {"prompt": …, "completion": …}, {"messages": [{"role": …, "content": …}, …]} or {"text": …})";

// A line with its place, for messages.
class Line {
 public:
  Line(const MappedLines& file, std::int64_t index) : where_(file.where(index)) {
    const auto text = file.line(index);
    try {
      json_ = Json::parse(text);
    } catch (const Json::parse_error& error) {
      const auto byte = std::min(error.byte, text.size());
      fail(cat("broken JSON at column ", std::max<std::size_t>(1, byte), " of ", text.size()),
           R"(write one JSON object a line; line breaks inside of texts are \n)");
    } catch (const Json::exception&) {
      fail("broken JSON: " + capstan::json_fault(text, 0), "write a number that a program can read");
    }
    if (!json_.is_object()) fail(cat("the line is of type ", json_.type_name(), ", not an object"), forms);
  }

  [[noreturn]] void fail(const std::string& what, const std::string& fix) const { throw Error(what, fix, where_); }
  const std::string& where() const { return where_; }
  const Json& json() const { return json_; }
  bool has(const char* key) const { return json_.contains(key); }
  std::string text(const char* key) const { return text(json_, key, key); }
  std::string text(const Json& object, const char* key, const std::string& name) const {
    const auto found = object.find(key);
    if (found == object.end()) fail(cat("'", name, "' is missing"), forms);
    if (!found->is_string()) fail(cat("'", name, "' is of type ", found->type_name(), ", not a text"), forms);
    return found->get<std::string>();
  }

 private:
  std::string where_;
  Json json_;
};

// A role that is known but for its letters' case would be learned as none of the assistant's.
void check_role(const Line& line, const std::string& role, const std::string& message) {
  auto meant = capstan::trim(role);
  for (auto& letter : meant) letter = static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
  const bool is_known = meant == "system" || meant == "user" || meant == "assistant";
  if (!is_known || meant == role) return;
  line.fail(cat("'", message, ".role' is '", role, "', and roles are written in lower case"),
            cat("write '", meant, "'"));
}

std::vector<Message> messages_of(const Line& line) {
  const auto& list = line.json().at("messages");
  if (!list.is_array() || list.empty()) line.fail("'messages' is not a list of messages", forms);
  std::vector<Message> messages;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto name = cat("messages[", i, "]");
    if (!list[i].is_object()) line.fail(cat("'", name, "' is of type ", list[i].type_name(), ", not an object"), forms);
    messages.push_back({line.text(list[i], "role", name + ".role"), line.text(list[i], "content", name + ".content")});
    check_role(line, messages.back().role, name);
  }
  return messages;
}

void read_messages(const Line& line, const Turns& turns, Record& record) {
  if (turns.empty()) {
    line.fail("'messages' need a template, and the configuration has none",
              R"(set data.turn, such as "<|im_start|>{role}\n{content}<|im_end|>\n", as the model was trained)");
  }
  const auto messages = messages_of(line);
  bool has_answer = false;
  for (const auto& message : messages) {
    Turns::Parts parts;
    try {
      parts = turns.parts(message);
    } catch (const Error& error) {
      line.fail(error.diagnostics().front().what, error.diagnostics().front().fix);
    }
    const bool is_answer = message.role == "assistant";
    has_answer = has_answer || is_answer;
    record.pieces.push_back({parts.before, false});
    record.pieces.push_back({parts.after, is_answer});
  }
  if (!has_answer) {
    line.fail("'messages' hold no message of the role 'assistant': nothing to learn",
              "add the answer, or take the line out");
  }
  if (messages.back().role == "assistant") record.reference = messages.back().content;
  record.needs_end = false;
}

}  // namespace

Record read_record(const MappedLines& file, std::int64_t index, const Turns& turns) {
  const Line line(file, index);
  const int kinds = static_cast<int>(line.has("messages")) + static_cast<int>(line.has("text")) +
                    static_cast<int>(line.has("prompt") || line.has("completion"));
  if (kinds != 1) line.fail(kinds == 0 ? "none of the keys is known" : "the line is of several kinds at once", forms);
  Record record;
  const auto id = line.json().value("id", Json());
  // "line 7" and not "7", which may well be another line's id.
  record.id = id.is_null()     ? cat("line ", line.where().substr(line.where().rfind(':') + 1))
              : id.is_string() ? id.get<std::string>()
                               : id.dump();
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
