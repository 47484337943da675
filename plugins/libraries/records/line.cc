#include "line.h"

#include "keys.h"
#include "record.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/base/printable.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace jsonl {
namespace {

using capstan::cat;
using capstan::counted;
using capstan::Error;
using capstan::Json;
using capstan::config::FileKey;
using capstan::config::FileKeys;
using Names = std::vector<std::string>;

// A role that is known but for its letters' case would be learned as none of the assistant's.
void check_role(const Line& line, const std::string& role, const std::string& message) {
  const auto meant = capstan::lower(capstan::trim(role));
  const bool is_known = meant == "system" || meant == "user" || meant == "assistant";
  if (!is_known || meant == role) return;
  line.fail(cat("'", message, ".role' is '", role, "', and roles are written in lower case"),
            cat("write '", meant, "'"));
}

// ShareGPT's words for roles. What tools say is written by a model's own template.
std::string role_of(const Line& line, const std::string& from, const std::string& message, bool by_model) {
  if (by_model && (from == "tool" || from == "observation")) return "tool";
  if (from == "human" || from == "user") return "user";
  if (from == "gpt" || from == "assistant") return "assistant";
  if (from == "system") return from;
  line.fail(cat("'", message, ".from' is '", from, "', which is none of human, user, gpt, assistant and system"),
            "write into the texts what the model's own template writes for it, or take the line out");
}

void drop_nulls(Json& object) {
  for (auto entry = object.begin(); entry != object.end();) entry = entry->is_null() ? object.erase(entry) : ++entry;
}

bool says_nothing(const Json& value) { return value.is_string() ? value.text().empty() : value.empty(); }

// Where the value under "id" of a line begins, which is a whole object; 0: that key is written with escapes.
std::size_t find_id(std::string_view line) {
  std::size_t found = 0;
  std::string_view key;
  for (std::size_t at = 0, depth = 0; at < line.size(); ++at) {
    const char c = line[at];
    if (c == '"') {
      const auto begin = ++at;
      for (; line[at] != '"'; ++at) at += line[at] == '\\' ? 1 : 0;
      key = line.substr(begin, at - begin);
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == ':' && depth == 1 && key == "id") found = at + 1;
  }
  return found;
}

// The number that begins after this place as the line writes it, which its value may not: 1.50, or one of 30 digits.
std::string number_after(std::string_view line, std::size_t at) {
  const auto begin = line.find_first_of("-0123456789", at);
  return std::string(line.substr(begin, line.find_first_not_of("+-.0123456789eE", begin) - begin));
}

}  // namespace

Line::Line(const Rows& file, std::int64_t index, const char* forms)
    : rows_(&file), index_(index), line_(file.line(index)), where_(file.where(index)), forms_(forms) {
  parse();
  if (!json_.is_object()) fail(cat("the line is of type ", json_.type_name(), ", not an object"));
  drop_nulls(json_);
  rename(file.columns());
}

void Line::rename(const Columns& columns) {
  std::vector<std::pair<std::string, Json>> named;
  for (const auto& [key, column] : columns.entries()) {
    if (const auto found = json_.find(column); found != json_.end()) named.emplace_back(key, *found);
  }
  // A column that has a key's name, and is not what is read as it, is none of the row's.
  for (const auto& [key, column] : columns.entries()) {
    json_.erase(key);
    json_.erase(column);
  }
  for (auto& [key, value] : named) json_[key] = std::move(value);
}

void Line::parse() {
  std::string fault;
  try {
    json_ = Json::parse(line_);
    // The parser takes a zero byte outside of texts for the end.
    if (const auto zero = line_.find('\0'); zero != line_.npos) fault = capstan::json_fault(line_, zero + 1);
  } catch (const capstan::JsonParseError& error) {
    fault = capstan::json_fault(line_, error);
  }
  if (fault.empty()) return;
  constexpr std::string_view known = "line 1, ";  // the place says which
  if (const auto at = fault.find(known); at != fault.npos) fault.erase(at, known.size());
  fail("broken JSON: " + fault, R"(write one JSON object a line, in UTF-8; line breaks inside of texts are \n)");
}

void Line::fail(const std::string& what, const std::string& fix) const { throw Error(what, fix, where_); }

std::string Line::text(const Json& object, const char* key, const std::string& name) const {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) fail(cat("'", name, "' is missing"));
  if (!found->is_string()) fail(cat("'", name, "' is of type ", found->type_name(), ", not a text"));
  return found->get<std::string>();
}

std::string Line::id() const {
  const auto id = json_.find("id");
  if (id == json_.end()) return rows_->name(index_);
  if (id->is_string()) return id->get<std::string>();
  const auto at = find_id(line_);
  return id->is_number() && at > 0 ? number_after(line_, at) : id->dump();
}

void Line::judge(const FileKeys& table, const std::string& key, const Json& value, const std::string& name,
                 Names& others) const {
  const auto* known = table.find(key);
  if (!known) {
    others.push_back(name);
  } else if (known->use == FileKey::Use::refused && !says_nothing(value)) {
    fail(cat("'", name, "' is not supported"), known->words);
  } else if (known->use == FileKey::Use::only) {
    const auto is_value = [&](const std::string& text) { return Json::parse(text) == value; };
    if (std::none_of(known->allowed.begin(), known->allowed.end(), is_value)) {
      fail(cat("'", name, "' is ", value.dump(), ", and only ", capstan::join(known->allowed, " or "), " is supported"),
           known->words);
    }
  }
}

void Line::judge(const FileKeys& table, const Names& numbers, Names& others, bool by_model) const {
  for (const auto& [key, value] : json_.items()) {
    const bool is_rendered = by_model && keys_of_rendered_line().find(key) != nullptr;
    const bool is_number = std::find(numbers.begin(), numbers.end(), key) != numbers.end();
    if (!is_rendered && !is_number) judge(table, key, value, key, others);
  }
}

std::string Line::part_text(const Json& part, const std::string& name) const {
  if (!part.is_object()) fail(cat("'", name, "' is of type ", part.type_name(), ", not an object"));
  Names ignored;
  for (const auto& [key, value] : part.items()) {
    if (!value.is_null()) judge(keys_of_part(), key, value, cat(name, ".", key), ignored);
  }
  return text(part, "text", name + ".text");
}

// A text, or OpenAI's list of parts; programs put different texts between several parts.
std::string Line::content(const Json& message, const std::string& name, bool by_model) const {
  const auto list = message.find("content");
  if (by_model && message.value("content", Json()).is_null() && message.contains("tool_calls")) return {};
  if (list == message.end() || !list->is_array()) return text(message, "content", name);
  std::vector<std::string> texts;
  for (const auto& part : *list) texts.push_back(part_text(part, cat(name, "[", texts.size(), "]")));
  if (by_model) return capstan::join(texts, "");
  if (list->size() != 1)
    fail(cat("'", name, "' has ", list->size(), " parts, not one"), "write all of the message as one text");
  return texts.front();
}

bool Line::is_learned(const Json& message, const std::string& role, const std::string& name) const {
  const auto weight = message.find("weight");
  if (weight == message.end() || weight->is_null()) return true;
  const bool is_zero = weight->is_number() && weight->get<double>() == 0;
  const bool is_one = weight->is_number() && weight->get<double>() == 1;
  if (!is_zero && !is_one)
    fail(cat("'", name, "' is ", weight->dump(), ", and only 0 and 1 are supported"), "write 0, or 1");
  if (is_one && role != "assistant") {
    fail(cat("'", name, "' is 1 in a message of the role '", role, "', and only the assistant's bear loss"),
         "take the weight out of this message");
  }
  return is_one;
}

// Tables may hold an object of lists in place of a list of objects.
Json Line::list_of_messages(const char* key) const {
  const auto& lists = json_.at(key).items();
  auto list = Json::array();
  for (const auto& [name, items] : lists) {
    if (!items.is_array()) fail(cat("'", key, ".", name, "' is of type ", items.type_name(), ", not a list"));
    const auto& first = lists.front();
    if (items.size() != first.value.size()) {
      fail(cat("'", key, ".", name, "' has ", counted(items.size(), "item"), ", and '", key, ".", first.key, "' ",
               first.value.size()),
           "write the line again, with an item for each message");
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (list.size() <= i) list.push_back(Json::object());
      list[i][name] = items[i];
    }
  }
  return list;
}

void Line::judge_message(const Json& one, const std::string& name, Names& others, bool by_model) const {
  for (const auto& [key, value] : one.items()) {
    const bool is_rendered = by_model && keys_of_rendered_message().find(key) != nullptr;
    if (!value.is_null() && !is_rendered) judge(keys_of_message(), key, value, cat(name, ".", key), others);
  }
}

std::vector<Message> Line::messages(const char* key, Names& others, bool by_model) const {
  const auto& found = json_.at(key);
  const auto made = found.is_object() ? list_of_messages(key) : Json();
  const auto& list = found.is_object() ? made : found;
  if (!list.is_array() || list.empty()) fail(cat("'", key, "' is not a list of messages"));
  std::vector<Message> messages;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto& one = list[i];
    const auto name = cat(key, "[", i, "]");
    if (!one.is_object()) fail(cat("'", name, "' is of type ", one.type_name(), ", not an object"));
    Names unknown;
    judge_message(one, name, unknown, by_model);
    messages.push_back(message(one, name, by_model));
    if (by_model) continue;  // the template says what it does not write
    for (const auto& its : unknown) others.push_back(cat(key, "[]", its.substr(name.size())));
  }
  return messages;
}

// Without what only Capstan reads.
Json Line::for_model(const Json& message, const Message& read) const {
  Json out{{"role", read.role}};
  for (const auto& [key, value] : message.items()) {
    const bool is_ours = key == "role" || key == "from" || key == "value" || key == "weight";
    if (!is_ours && !value.is_null()) out[key] = value;
  }
  const bool has_parts = out.contains("content") && out.at("content").is_array() && out.at("content").size() > 1;
  if (!has_parts && (out.contains("content") || message.contains("value"))) out["content"] = read.content;
  return out;
}

Message Line::message(const Json& one, const std::string& name, bool by_model) const {
  const bool is_sharegpt = one.contains("from") && !one.at("from").is_null();
  if (is_sharegpt && one.contains("role") && !one.at("role").is_null())
    fail(cat("'", name, "' has both 'from' and 'role'"), "take one of them out");
  const auto written = is_sharegpt ? text(one, "from", name + ".from") : text(one, "role", name + ".role");
  const auto role = is_sharegpt ? role_of(*this, written, name, by_model) : written;
  check_role(*this, role, name);
  auto content_of = is_sharegpt ? text(one, "value", name + ".value") : content(one, name + ".content", by_model);
  Message read{role, std::move(content_of), is_learned(one, role, name + ".weight")};
  if (by_model) read.json = for_model(one, read);
  return read;
}

void Line::add_turns(const std::vector<Message>& messages, const Turns& turns, bool answers, Record& record) const {
  if (turns.empty()) {
    fail(
        "messages need a template, and the configuration has none",
        R"(set data.chat_template = "model" for the model's own, or data.turn, such as "<|im_start|>{role}\n{content}<|im_end|>\n", as the model was trained)");
  }
  for (const auto& message : messages) {
    Turns::Parts parts;
    try {
      parts = turns.parts(message);
    } catch (const Error& error) {
      fail(error.diagnostics().front().what, error.diagnostics().front().fix);
    }
    const bool is_assistant = message.role == "assistant";
    const bool is_answer = is_assistant && message.is_learned;
    record.pieces.push_back({parts.before, false});
    record.pieces.push_back({parts.after, is_answer && answers, is_assistant && !message.is_learned});
  }
  record.needs_end = false;
}

bool has_answer(const std::vector<Message>& messages) {
  return std::any_of(messages.begin(), messages.end(),
                     [](const Message& one) { return one.role == "assistant" && one.is_learned; });
}

}  // namespace jsonl
