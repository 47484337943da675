#include <capstan/base/text.h>

#include <algorithm>
#include <map>

#include "data.h"

namespace import_axolotl {

using namespace capstan;

namespace {

void set_columns(const DataSet& data, const std::vector<std::pair<std::string, std::string>>& pairs,
                 const std::string& name) {
  std::vector<std::string> columns;
  for (const auto& [key, column] : pairs) {
    if (!column.empty() && column != key) columns.push_back(cat(key, " = ", column));
  }
  if (!columns.empty()) data.set("columns", columns, name);
}

void choose_columns(const DataSet& data, const std::string& why) {
  data.choose("columns", R"(["prompt = question", "completion = answer"])", why, data.has("type") ? "type" : "path");
}

void take_text(const DataSet& data) {
  const std::string name = data.has("field") ? "field" : "text_column";
  set_columns(data, {{"text", data.text(name)}}, name);
}

// The names of a message's role and text.
std::pair<std::string, std::string> properties(const DataSet& data) {
  std::pair<std::string, std::string> out{"role", "content"};
  if (data.has("message_field_role")) out.first = data.text("message_field_role");
  if (data.has("message_field_content")) out.second = data.text("message_field_content");
  const auto* mapped = data.import.find(data.key("message_property_mappings"));
  if (mapped == nullptr || !mapped->is_object()) return out;
  for (const auto& [key, value] : mapped->items()) {
    if (key == "role" && value.is_string()) out.first = value.text();
    if (key == "content" && value.is_string()) out.second = value.text();
    if (key != "role" && key != "content") {
      data.import.note(data.key("message_property_mappings"),
                       cat("maps ", key, ", which a message has under the template's own name here"));
    }
  }
  return out;
}

// The form of the rows: messages or ShareGPT's conversations.
void take_messages(const DataSet& data) {
  const auto field = data.has("field_messages") ? data.text("field_messages") : "messages";
  const auto [role, content] = properties(data);
  const std::string name = data.has("field_messages") ? "field_messages" : "type";
  if (role == "role" && content == "content") {
    set_columns(data, {{"messages", field}}, name);
  } else if (role == "from" && content == "value") {
    set_columns(data, {{"conversations", field}}, name);
  } else {
    choose_columns(data, cat("write messages with role and content; these have ", role, " and ", content));
  }
}

void take_roles(const DataSet& data) {
  static const std::map<std::string, std::vector<std::string>> known{
      {"user", {"user", "human"}}, {"assistant", {"assistant", "gpt"}}, {"system", {"system"}}, {"tool", {"tool"}}};
  const auto* roles = data.import.find(data.key("roles"));
  if (roles == nullptr) return;
  if (!roles->is_object())
    return data.import.fault(data.key("roles"), cat("is ", roles->dump(), ", expected a table"), "change it");
  for (const auto& [role, names] : roles->items()) {
    const auto found = known.find(role);
    for (const auto& name : names.is_array() ? names : Json::array({names})) {
      if (found != known.end() && name.is_string() &&
          std::find(found->second.begin(), found->second.end(), name.text()) != found->second.end())
        continue;
      data.import.fault(data.key("roles"), cat("calls the ", role, " ", name.dump()),
                        "rename the roles in the rows to user, assistant, system and tool");
    }
  }
}

// Only the assistant's turns with their ends, or everything.
void take_learned(const DataSet& data) {
  auto& import = data.import;
  if (import.is_true("train_on_inputs")) import.set(data.table + ".loss", "sequence", "train_on_inputs");
  for (const auto& role : import.texts(data.key("roles_to_train"))) {
    if (role != "assistant" && role != "gpt") {
      import.fault(data.key("roles_to_train"), cat("names ", role),
                   "learn the assistant's turns only, or all by train_on_inputs: true");
    }
  }
  for (const char* name : {"field_thinking", "template_thinking_key"}) {
    const auto field = data.text(name);
    if (!field.empty() && field != "thinking" && field != "reasoning_content")
      import.fault(data.key(name), cat("is ", field), "name the reasoning of a message thinking or reasoning_content");
  }
  for (const char* name : {"train_on_eos", "train_on_eot"}) {
    if (data.has(name) && data.text(name) != "turn") {
      import.fault(data.key(name), cat("is ", data.text(name)),
                   "each learned turn has its end: write turn, or remove it");
    }
  }
}

void take_conversations(const DataSet& data) {
  take_messages(data);
  take_roles(data);
  take_template(data);
}

void take_pairs(const DataSet& data) {
  const auto type = data.text("type");
  data.set("pairs", true, "type");
  const bool whole = type == "chat_template.argilla";
  if (!whole && type != "chat_template.default" && type != "chat_template")
    return choose_columns(data, "a row's keys prompt, chosen and rejected; axolotl's type writes them its own way");
  const auto messages = data.has("field_messages") ? data.text("field_messages") : "messages";
  set_columns(data,
              {{"prompt", whole ? "" : messages},
               {"chosen", data.text("field_chosen")},
               {"rejected", data.text("field_rejected")}},
              "type");
  if (!whole) {
    data.import.note(
        data.key("type"),
        "takes single messages for chosen and rejected; here they are texts or lists of messages: write them so");
  }
  take_roles(data);
  take_template(data);
}

bool is_text(const DataSet& data) {
  const auto type = data.text("type");
  return data.path.starts_with("pretraining") || type == "completion" || type == "pretrain";
}

void take_samples(const DataSet& data) {
  const auto* given = data.import.find(data.key("type"));
  const auto type = data.text("type");
  const auto base = type.substr(0, type.find_first_of(".:"));
  const auto style = base.size() == type.size() ? "" : type.substr(base.size() + 1);
  take_learned(data);
  if (given != nullptr && given->is_object()) return take_fields(data);
  if (is_text(data)) return take_text(data);
  if (type == "chat_template" || base == "sharegpt") return take_conversations(data);
  if (base == "alpaca") return take_alpaca(data, style.empty() ? "instruct" : style);
  choose_columns(data, type.empty() ? "what a row's keys are here"
                                    : cat("axolotl's type ", type,
                                          " writes prompts of its own: name the columns, and "
                                          "user_turn and assistant_turn"));
}

}  // namespace

void take_form(const DataSet& data) { data.import.has("rl") ? take_pairs(data) : take_samples(data); }

}  // namespace import_axolotl
