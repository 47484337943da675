#include "rendered_record.h"

#include "renderings.h"

#include <capstan/base/text.h>

#include <utility>

namespace jsonl {
namespace {

using capstan::Json;

// Tables that cannot hold lists of different objects have them as JSON texts.
Json value_of_line(const Line& line, const char* key) {
  const auto& value = line.json().at(key);
  if (!value.is_string()) return value;
  auto read = capstan::try_parse_json(value.text());
  if (read.is_discarded()) line.fail(capstan::cat("'", key, "' is a text, and no JSON"), "write it as JSON");
  return read;
}

void add(const Line& line, const char* key, const char* as, bool is_list, Json& conversation) {
  if (!line.has(key)) return;
  auto value = value_of_line(line, key);
  if (value.is_null() || (value.is_structured() && value.empty())) return;
  if (is_list ? !value.is_array() : !value.is_object()) {
    line.fail(capstan::cat("'", key, "' is of type ", value.type_name(), ", not ", is_list ? "a list" : "an object"),
              "write it as chat templates take it, or take it out");
  }
  conversation[as] = std::move(value);
}

Json conversation_of(const Line& line, const std::vector<Message>& messages) {
  auto list = Json::array();
  for (const auto& message : messages) {
    auto its = message.json;
    if (!message.is_learned) its["weight"] = 0;
    list.push_back(std::move(its));
  }
  Json conversation{{"messages", std::move(list)}};
  add(line, "tools", "tools", true, conversation);
  add(line, "documents", "documents", true, conversation);
  add(line, "chat_template_kwargs", "variables", false, conversation);
  return conversation;
}

}  // namespace

void add_rendering(const Line& line, const std::vector<Message>& messages, const Turns& turns, Record& record,
                   std::int64_t answer) {
  record.needs_end = false;
  if (!turns.renderings) {
    record.conversation = conversation_of(line, messages);
    return;
  }
  auto rendered = turns.renderings->get(line.index(), answer);
  record.begins_with = turns.renderings->head().begins_with;
  record.prompt = rendered.prompt;
  record.reference = rendered.answer.value_or("");
  for (auto& [text, bears_loss] : rendered.pieces) record.pieces.push_back({std::move(text), bears_loss});
}

std::vector<Message> after_prompt(std::vector<Message> prompt, const std::vector<Message>& answer) {
  for (auto& message : prompt) message.is_learned = false;
  prompt.insert(prompt.end(), answer.begin(), answer.end());
  return prompt;
}

}  // namespace jsonl
