#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <filesystem>
#include <map>

#include "data.h"

namespace import_axolotl {

using namespace capstan;

namespace {

constexpr const char* for_the_end = "the tokenizer's end token in the place of </s>";

// A template that axolotl has as a text of its own.
void take_named(const DataSet& data, const std::string& name, const std::string& path) {
  auto& import = data.import;
  const auto folder = std::filesystem::path(import.file().templates);
  const auto file = folder / (name + ".jinja");
  static const std::map<std::string, std::string> turns{
      {"chatml", "<|im_start|>{role}\n{content}<|im_end|>\n"},
      {"llama3", "<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>"}};
  if (!folder.empty() && is_file(file)) {
    import.set(data.table + ".chat_template_file", file.string(), path);
  } else if (turns.contains(name)) {
    import.set(data.table + ".turn", turns.at(name), path);
    import.note(path, cat("is ", name, ", as a turn: the tokenizer's own begin token stands before the first"));
  } else {
    import.choose(data.table + ".chat_template", "\"model\"",
                  cat("the tokenizer's own; or as chat_template_file axolotl's ", name,
                      ".jinja, of its folder utils/chat_templates/templates"),
                  path);
  }
}

void take_jinja(const DataSet& data, const std::string& path) {
  const auto text = data.import.text(path);
  if (text.find_first_of("{\n") == std::string::npos && is_file(text)) {
    data.import.set(data.table + ".chat_template_file", data.import.local(text), path);
  } else {
    data.import.choose(data.table + ".chat_template_file", "\"template.jinja\"", "save axolotl's text as a file", path);
  }
}

// enable_thinking and what else a template reads.
void take_variables(const DataSet& data) {
  const auto* given = data.import.find("chat_template_kwargs");
  if (given == nullptr || !given->is_object()) return;
  std::vector<std::string> variables;
  for (const auto& [name, value] : given->items()) variables.push_back(cat(name, " = ", value.dump()));
  if (!variables.empty()) data.import.set(data.table + ".template_variables", variables, "chat_template_kwargs");
}

// The key of the data set's own, else the file's, else the older name.
std::string key_of(const DataSet& data, const std::string& name) {
  if (data.has(name)) return data.key(name);
  return data.import.has(name) ? name : "";
}

// A prompt's beginning and end around an instruction, and what an answer begins with.
struct Style {
  std::string user;
  std::string assistant;
};

void set_turns(const DataSet& data, const Style& style) {
  const auto end = data.import.end_token();
  data.set("user_turn", style.user, "type");
  if (!end.empty()) return data.set("assistant_turn", style.assistant + "{content}" + end, "type");
  data.choose("assistant_turn", config::value_text(Value(style.assistant + "{content}</s>")), for_the_end, "type");
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const auto at = text.find(what);
  return at == std::string::npos ? text : text.replace(at, what.size(), with);
}

std::string field(const Json& fields, const std::string& name, const char* absent) {
  const auto found = fields.find(name);
  return found == fields.end() || !found->is_string() ? absent : found->text();
}

}  // namespace

void take_template(const DataSet& data) {
  take_variables(data);
  auto path = key_of(data, "chat_template");
  if (path.empty() && data.has("conversation")) path = data.key("conversation");
  const auto jinja = key_of(data, "chat_template_jinja");
  const auto name = path.empty() ? "" : data.import.text(path);
  const std::string fallback = "tokenizer_default_fallback_";
  if (!jinja.empty() && (name.empty() || name == "jinja")) return take_jinja(data, jinja);
  if (name.empty() || name == "tokenizer_default" || name.starts_with(fallback)) {
    data.import.set(data.table + ".chat_template", "model", path.empty() ? data.key("type") : path);
    if (name.starts_with(fallback)) {
      data.import.note(path,
                       cat("where the tokenizer has no template, axolotl takes its ", name.substr(fallback.size())));
    }
    return;
  }
  take_named(data, name, path);
}

void take_alpaca(const DataSet& data, const std::string& style) {
  const std::string task =
      "Below is an instruction that describes a task. Write a response that appropriately completes the request.";
  const std::map<std::string, Style> styles{
      {"instruct", {task + "\n\n### Instruction:\n{content}\n\n", "### Response:\n"}},
      {"chat", {"SYSTEM: " + task + "\nUSER: {content}\n", "ASSISTANT:"}},
      {"chatml",
       {"<|im_start|>system\n" + task + "<|im_end|>\n<|im_start|>user\n{content}<|im_end|>\n",
        "<|im_start|>assistant\n"}},
      {"phi", {"<|system|>\n" + task + "<|end|>\n<|user|>\n{content}<|end|>\n", "<|assistant|>\n"}}};
  const auto found = styles.find(style);
  if (found == styles.end()) {
    return data.choose("columns", R"(["instruction = question", "output = answer"])",
                       cat("axolotl's alpaca prompts in the style ", style, ": also user_turn and assistant_turn"),
                       "type");
  }
  set_turns(data, found->second);
  data.import.note(
      data.key("type"),
      "announces a row's input in the prompt; here an input follows the instruction after a blank line, and "
      "the first sentence is that of rows without one");
}

void take_fields(const DataSet& data) {
  const auto& fields = *data.import.find(data.key("type"));
  std::vector<std::string> columns;
  for (const std::string name : {"instruction", "input", "output"}) {
    const auto column = field(fields, "field_" + name, name.c_str());
    if (column != name) columns.push_back(cat(name, " = ", column));
  }
  if (!columns.empty()) data.set("columns", columns, "type");
  const auto format = field(fields, "no_input_format", field(fields, "format", "{instruction} ").c_str());
  if (format.find("{instruction}") == std::string::npos || format.find("{input}") != std::string::npos) {
    return data.choose("user_turn", R"("{content}\n")", cat("how an instruction is written; axolotl's: ", format),
                       "type");
  }
  auto system = field(fields, "system_prompt", "");
  if (!system.empty()) system = replaced(field(fields, "system_format", "{system}"), "{system}", system);
  set_turns(data, {system + replaced(format, "{instruction}", "{content}"), ""});
  if (fields.contains("format")) {
    data.import.note(data.key("type"),
                     cat("writes ", fields.at("format").dump(),
                         " of a row with an input; here that follows the instruction after a blank line"));
  }
}

}  // namespace import_axolotl
