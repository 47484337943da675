#include "prompts.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <istream>

#include "asking/conversation.h"

namespace generate {

using namespace capstan;

namespace {

constexpr const char* variables_key = "chat_template_kwargs";  // as data's lines have it

// What a template reads of a line.
Json conversation_in(const Json& line, std::int64_t number) {
  const auto& messages = line.at("messages");
  const auto is_message = [](const Json& message) { return message.is_object() && message.contains("role"); };
  if (!messages.is_array() || messages.empty() || !std::all_of(messages.begin(), messages.end(), is_message)) {
    throw Error(cat("line ", number, " of the input has no list of messages"),
                R"(write them as {"messages": [{"role": "user", "content": "Where is Paris?"}]})");
  }
  if (messages.back().at("role") == Json("assistant")) {
    throw Error(cat("line ", number, " of the input ends with an answer of the assistant's"),
                "take its last message out: it is what the model is asked for");
  }
  Json conversation;
  const auto take = [&](const char* key, const char* as) {
    if (const auto found = line.find(key); found != line.end() && !found->is_null()) conversation[as] = *found;
  };
  for (const auto* key : {"messages", "tools", "documents"}) take(key, key);
  take(variables_key, "variables");
  return conversation;
}

PromptLine json_prompt(const std::string& line, std::int64_t number) {
  const auto json = try_parse_json(line);
  const auto has = [&](const char* key) { return json.is_object() && json.contains(key); };
  if (!has("messages") && !(has("prompt") && json.at("prompt").is_string())) {
    throw Error(cat("line ", number, " of the input is not a JSON object with a prompt"),
                R"(write one object a line, such as {"prompt": "The capital of France is"})");
  }
  PromptLine prompt{{}, json.contains("id") ? json.at("id").dump() : std::string(), {}};
  if (has("messages")) {
    prompt.conversation = conversation_in(json, number);
  } else {
    prompt.text = json.at("prompt").text();
  }
  return prompt;
}

}  // namespace

std::vector<PromptLine> read_prompts(std::istream& in, bool json) {
  std::vector<PromptLine> lines;
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (trim(line).empty()) continue;
    lines.push_back(json ? json_prompt(line, number) : PromptLine{line, {}, {}});
  }
  return lines;
}

Json answered_line(const PromptLine& line, const std::string& answer) {
  Json out;
  if (!line.id.empty()) out["id"] = Json::parse(line.id);
  if (line.conversation.is_null()) {
    out["prompt"] = line.text;
  } else {
    for (const auto& [key, value] : line.conversation.items())
      out[key == "variables" ? variables_key : std::string_view(key)] = value;
    out["messages"].push_back(asking::message("assistant", answer));
  }
  out["answer"] = answer;
  return out;
}

}  // namespace generate
