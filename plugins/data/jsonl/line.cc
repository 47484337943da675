#include "line.h"

#include "record.h"

#include <capstan/base/error.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>

namespace jsonl {
namespace {

using capstan::cat;
using capstan::Error;
using Json = nlohmann::json;

// A role that is known but for its letters' case would be learned as none of the assistant's.
void check_role(const Line& line, const std::string& role, const std::string& message) {
  auto meant = capstan::trim(role);
  for (auto& letter : meant) letter = static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
  const bool is_known = meant == "system" || meant == "user" || meant == "assistant";
  if (!is_known || meant == role) return;
  line.fail(cat("'", message, ".role' is '", role, "', and roles are written in lower case"),
            cat("write '", meant, "'"));
}

}  // namespace

Line::Line(const MappedLines& file, std::int64_t index, const char* forms) : where_(file.where(index)), forms_(forms) {
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
  if (!json_.is_object()) fail(cat("the line is of type ", json_.type_name(), ", not an object"));
}

void Line::fail(const std::string& what, const std::string& fix) const { throw Error(what, fix, where_); }

std::string Line::text(const Json& object, const char* key, const std::string& name) const {
  const auto found = object.find(key);
  if (found == object.end()) fail(cat("'", name, "' is missing"));
  if (!found->is_string()) fail(cat("'", name, "' is of type ", found->type_name(), ", not a text"));
  return found->get<std::string>();
}

std::string Line::id() const {
  const auto id = json_.value("id", Json());
  return id.is_null()     ? cat("line ", where_.substr(where_.rfind(':') + 1))
         : id.is_string() ? id.get<std::string>()
                          : id.dump();
}

std::vector<Message> Line::messages(const Json& list, const std::string& name) const {
  if (!list.is_array() || list.empty()) fail(cat("'", name, "' is not a list of messages"));
  std::vector<Message> messages;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto one = cat(name, "[", i, "]");
    if (!list[i].is_object()) fail(cat("'", one, "' is of type ", list[i].type_name(), ", not an object"));
    messages.push_back({text(list[i], "role", one + ".role"), text(list[i], "content", one + ".content")});
    check_role(*this, messages.back().role, one);
  }
  return messages;
}

bool Line::add_turns(const std::vector<Message>& messages, const Turns& turns, bool answers, Record& record) const {
  if (turns.empty()) {
    fail("messages need a template, and the configuration has none",
         R"(set data.turn, such as "<|im_start|>{role}\n{content}<|im_end|>\n", as the model was trained)");
  }
  bool has_answer = false;
  for (const auto& message : messages) {
    Turns::Parts parts;
    try {
      parts = turns.parts(message);
    } catch (const Error& error) {
      fail(error.diagnostics().front().what, error.diagnostics().front().fix);
    }
    const bool is_assistant = message.role == "assistant";
    has_answer = has_answer || is_assistant;
    record.pieces.push_back({parts.before, false});
    record.pieces.push_back({parts.after, is_assistant && answers});
  }
  record.needs_end = false;
  return has_answer;
}

}  // namespace jsonl
