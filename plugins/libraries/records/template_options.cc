#include "template_options.h"

#include <capstan/base/counted.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace jsonl {

using namespace capstan;

namespace {

using Options = config::Options<JsonlOptions>;

// What is wrong with a text that says how a message is written.
Diagnostic template_fault(const std::string& text) {
  constexpr std::string_view content = "{content}";
  const auto at = text.find(content);
  if (at == std::string::npos)
    return {{}, "which has no place for a message's text", "write {content} where it stands"};
  if (text.find("{{content}}") != std::string::npos || text.find("{{role}}") != std::string::npos) {
    return {{},
            "whose second braces would stay in the text",
            "write {content} and {role} with one brace on each side: there is no template language"};
  }
  if (text.find(content, at + 1) != std::string::npos)
    return {{}, "which has a place for a message's text twice", "write {content} once"};
  return {};
}

// A name, and its value as JSON; a bare word is no value.
std::optional<std::pair<std::string, Json>> variable_in(const std::string& text) {
  const auto sign = text.find('=');
  if (sign == text.npos) return {};
  auto name = trim(text.substr(0, sign));
  auto value = try_parse_json(trim(text.substr(sign + 1)));
  if (name.empty() || value.is_discarded()) return {};
  return std::pair(std::move(name), std::move(value));
}

bool is_date(const std::string& text) {
  constexpr std::string_view form = "0000-00-00";
  return text.size() == form.size() && std::equal(text.begin(), text.end(), form.begin(), [](char c, char its) {
           return its == '-' ? c == '-' : c >= '0' && c <= '9';
         });
}

void judge_variables(const Options& options, Diagnostics& diagnostics) {
  const auto member = &JsonlOptions::template_variables;
  for (const auto& text : options->template_variables) {
    if (variable_in(text)) continue;
    diagnostics.add(options.where(member),
                    cat(options.name(member), " has \"", text, R"(", which is not "NAME = VALUE")"),
                    R"(write a name and its value as JSON, such as "enable_thinking = false" or "effort = \"low\"")");
  }
  const auto date = &JsonlOptions::template_date;
  if (options->template_date.empty() || is_date(options->template_date)) return;
  diagnostics.add(options.where(date),
                  cat(options.name(date), " is \"", options->template_date, "\", which is no date"),
                  R"(write it as "2026-11-29")");
}

void judge_by_model(const Options& options, Diagnostics& diagnostics) {
  const auto refuse = [&](const auto member) {
    if (!options.is_set(member)) return;
    diagnostics.add(options.where(member), cat(options.name(member), " is set, and the model's own template too"),
                    cat("take one of them out: ", options.name(member), " or data.chat_template"));
  };
  if (!options->turn.empty()) refuse(&JsonlOptions::turn);
  for (const auto member : {&JsonlOptions::system_turn, &JsonlOptions::user_turn, &JsonlOptions::assistant_turn})
    if ((*options).*member) refuse(member);
  const auto file = &JsonlOptions::chat_template_file;
  if (!options->chat_template_file.empty() && !is_there(options->chat_template_file)) {
    diagnostics.add(options.where(file), cat(options.name(file), ": there is no ", options->chat_template_file),
                    "name a file of a template (.jinja), or a model's folder that has one");
  }
  judge_variables(options, diagnostics);
}

// Options that are of a template, where there is none.
void judge_without(const Options& options, Diagnostics& diagnostics) {
  const auto refuse = [&](const auto member) {
    diagnostics.add(options.where(member), cat(options.name(member), " is set, and no template reads it"),
                    R"(set data.chat_template = "model", or take it out)");
  };
  if (!options->template_variables.empty()) refuse(&JsonlOptions::template_variables);
  if (!options->template_name.empty()) refuse(&JsonlOptions::template_name);
  if (!options->template_date.empty()) refuse(&JsonlOptions::template_date);
}

void judge_turns(const Options& options, Diagnostics& diagnostics) {
  const auto judge = [&](const std::string& text, const auto& member) {
    const auto fault = template_fault(text);
    if (!fault.what.empty())
      diagnostics.add(options.where(member), cat(options.name(member), " is \"", text, "\", ", fault.what), fault.fix);
  };
  if (!options->turn.empty()) judge(options->turn, &JsonlOptions::turn);
  for (const auto member : {&JsonlOptions::system_turn, &JsonlOptions::user_turn, &JsonlOptions::assistant_turn}) {
    if ((*options).*member) judge(*((*options).*member), member);
  }
}

chat_template::Source source_of(const Options& options, const data::SplitRequest& request) {
  chat_template::Source source{request.tokenizer_folder};
  const auto& file = options->chat_template_file;
  (is_folder(file) ? source.folder : source.file) = file;
  if (file.empty() && source.folder.empty()) {
    throw Error("the tokenizer was opened from no folder, so no template is the model's own",
                "set data.tokenizer or model.path to the model's folder, or data.chat_template_file to a template",
                options.where(&JsonlOptions::chat_template));
  }
  source.name = options->template_name;
  for (const auto& text : options->template_variables) {
    auto [name, value] = *variable_in(text);
    source.variables[name] = std::move(value);
  }
  if (!options->template_date.empty()) source.date = options->template_date;
  source.python = options->python;
  return source;
}

}  // namespace

void JsonlOptions::describe_template(config::OptionTable<JsonlOptions>& t) {
  t.add("chat_template", &JsonlOptions::chat_template)
      .choices({"none", "model"})
      .doc("model: conversations are written by the chat template of the tokenizer's folder; none: by turn");
  t.add("chat_template_file", &JsonlOptions::chat_template_file)
      .path()
      .doc("the same by another template: a file, or a model's folder that has one");
  t.add("template_name", &JsonlOptions::template_name)
      .doc("which of several templates that the folder has, by its name");
  t.add("template_variables", &JsonlOptions::template_variables)
      .doc(
          R"(what the template reads besides messages, each as "NAME = VALUE" with its JSON: ["enable_thinking = false"])");
  t.add("template_date", &JsonlOptions::template_date)
      .doc(R"(today's date for the template, as "2026-11-29"; not set: that of the first rendering)");
}

void JsonlOptions::describe_turns(config::OptionTable<JsonlOptions>& t) {
  t.add("turn", &JsonlOptions::turn)
      .doc(R"(how a message is written, with {role} and {content}, such as )"
           R"("<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>"; what stands before the assistant's )"
           R"({content} is what answers are generated from)");
  t.add("system_turn", &JsonlOptions::system_turn).doc("how the system's messages are written instead");
  t.add("user_turn", &JsonlOptions::user_turn).doc("how the user's messages are written instead");
  t.add("assistant_turn", &JsonlOptions::assistant_turn).doc("how the assistant's messages are written instead");
}

Turns turns_of(const Options& options, Diagnostics& diagnostics) {
  judge_turns(options, diagnostics);
  Turns turns{options->turn, options->system_turn, options->user_turn, options->assistant_turn};
  turns.by_model = options->chat_template == "model" || !options->chat_template_file.empty();
  turns.by_model ? judge_by_model(options, diagnostics) : judge_without(options, diagnostics);
  return turns;
}

RenderRequest render_request(const Options& options, const data::SplitRequest& request,
                             std::shared_ptr<const Rows> rows, std::int64_t count) {
  return {source_of(options, request),
          std::move(rows),
          count,
          options->pairs,
          options->derived,
          cat("set ", options.name(&JsonlOptions::derived), " to another folder"),
          options->known_keys()};
}

void refuse_unread_variables(const Options& options, const chat_template::Head& head) {
  const auto member = &JsonlOptions::template_variables;
  const auto& read = head.variables;
  for (const auto& text : options->template_variables) {
    const auto name = trim(text.substr(0, text.find('=')));
    if (name.ends_with("_token") || std::find(read.begin(), read.end(), name) != read.end()) continue;
    throw Error(cat(options.name(member), " has \"", text, "\", and ", head.template_file, " reads no such variable"),
                read.empty() ? "take it out: it reads none" : suggestion(name, read), options.where(member));
  }
}

std::vector<std::string> warnings_of(const Renderings& renderings, const Rows& rows,
                                     const tokenizer::Tokenizer& tokenizer) {
  const auto& head = renderings.head();
  std::vector<std::string> all;
  std::vector<std::string> parts;
  for (const auto& [name, found] : renderings.dropped())
    parts.push_back(cat(name, " in ", counted(found.rows, "row"), " (the first: ", rows.name(found.first), ")"));
  if (!parts.empty()) all.push_back(cat(rows.path(), ": ", head.template_file, " does not write ", join(parts)));
  const auto ids = tokenizer.encode(head.turn_end);
  if (head.turn_end.empty()) {
    all.push_back(cat(head.template_file,
                      ": no text of its own ends the assistant's turn, so that a model learns to end an ",
                      "answer only where another turn follows"));
  } else if (std::none_of(ids.begin(), ids.end(), [&](std::int64_t id) { return tokenizer.is_end(id); })) {
    all.push_back(
        cat(head.template_file, " ends the assistant's turn with '", head.turn_end,
            "', which is no token at which generation ends, by the tokenizer's files; answers end there in this "
            "run, and elsewhere once eos_token_id of generation_config.json names it"));
  }
  return all;
}

}  // namespace jsonl
