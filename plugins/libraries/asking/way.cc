#include "way.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/config/model_path.h>
#include <capstan/config/toml_values.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <variant>

namespace asking {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

using Options = std::map<std::string, config::Value>;

fs::path folder_of(const std::string& name, const command::Call& call) {
  const auto path = fs::absolute(name).lexically_normal();
  return is_there(path) ? path : config::find_model({name, path.string(), {}}, config::hub_cache(call.environment));
}

std::string text_of(const Options& options, const std::string& key) {
  const auto found = options.find(key);
  const auto* text = found == options.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text ? *text : std::string();
}

// The folder that has a run's template: its tokenizer's, the model that it began with, or what it has written itself.
// The first two may be gone.
std::string folder_of_run(const Options& options, const fs::path& run, const command::Call& call) {
  for (const auto* key : {"data.tokenizer", "model.path"}) {
    const auto name = text_of(options, key);
    if (name.empty()) continue;
    try {
      const auto place = folder_of(name, call);
      const auto folder = is_folder(place) ? place : place.parent_path();
      if (chat_template::has_template(folder)) return folder.string();
    } catch (const Error&) {
    }
  }
  return (run / "model").string();
}

// The table of [data], or the first of a mixture's sources, whose conversations a template writes (options of the
// library `records`); empty: there is none.
std::string templated_table(const Options& options) {
  const auto is_templated = [&](const std::string& table) {
    return text_of(options, table + "chat_template") == "model" ||
           !text_of(options, table + "chat_template_file").empty();
  };
  if (is_templated("data.")) return "data.";
  const std::string sources = "data.sources.";
  for (const auto& [key, value] : options) {
    auto table = key.substr(0, key.find('.', sources.size()) + 1);
    if (key.starts_with(sources) && is_templated(table)) return table;
  }
  return {};
}

// What a run's data were written with. Returns whether a template wrote them.
bool take_run(const std::string& config, const command::Call& call, chat_template::Source& source) {
  const auto options = config::toml_values(config);
  source.folder = folder_of_run(options, fs::path(config).parent_path(), call);
  const auto table = templated_table(options);
  if (table.empty()) return false;
  const auto file = text_of(options, table + "chat_template_file");
  if (!file.empty()) (is_folder(file) ? source.folder : source.file) = file;
  source.name = text_of(options, table + "template_name");
  source.python = text_of(options, table + "python");
  if (const auto date = text_of(options, table + "template_date"); !date.empty()) source.date = date;
  const auto found = options.find(table + "template_variables");
  if (found == options.end()) return true;
  if (const auto* variables = std::get_if<std::vector<std::string>>(&found->second)) {
    for (const auto& text : *variables) add_variable(source.variables, text);
  }
  return true;
}

}  // namespace

void declare(command::Arguments& arguments, Given& given) {
  const auto* heading = "Chat template";
  arguments.value("--system", given.system, "the system's message, before the question").group(heading);
  arguments
      .value("--template", given.file,
             "a chat template (.jinja), or a model's folder that has one, in place of the model's own")
      .group(heading);
  arguments
      .values("--template-variable", given.variables,
              "what the template reads besides messages, such as enable_thinking=false; once for each")
      .one_each("NAME=VALUE")
      .group(heading);
}

void add_variable(Json& variables, const std::string& text) {
  const auto at = std::min(text.find('='), text.size());
  const auto name = trim(text.substr(0, at));
  if (name.empty() || at == text.size()) {
    throw Error(cat("--template-variable '", text, "' has no name and value"),
                "write NAME=VALUE, such as enable_thinking=false");
  }
  const auto value = trim(text.substr(at + 1));
  const auto json = try_parse_json(value);
  variables[name] = json.is_discarded() ? Json(value) : json;
}

chat_template::Head head_of(const chat_template::Source& source, const Given& given) {
  auto head = chat_template::head(source);
  auto variables = Json::object();
  for (const auto& text : given.variables) add_variable(variables, text);
  for (const auto& [name, value] : variables.items()) {
    if (std::find(head.variables.begin(), head.variables.end(), name) != head.variables.end()) continue;
    throw Error(cat("the chat template does not read --template-variable ", name),
                head.variables.empty() ? "leave it out: it reads none" : suggestion(name, head.variables),
                head.template_file);
  }
  return head;
}

Way way_of(const std::string& model, const std::string& config, const command::Call& call, const Given& given) {
  Way way;
  chat_template::Source source;
  way.is_run = !config.empty();
  if (way.is_run) {
    way.has_learned = take_run(config, call, source);
  } else {
    source.folder = folder_of(model, call).string();
  }
  if (!given.file.empty()) {
    if (!is_there(given.file)) throw Error("there is no such template", "name a file or a model's folder", given.file);
    source.name.clear();
    source.file.clear();
    (is_folder(given.file) ? source.folder : source.file) = fs::absolute(given.file).lexically_normal().string();
  }
  for (const auto& text : given.variables) add_variable(source.variables, text);
  if (!source.file.empty() || chat_template::has_template(source.folder)) way.source = source;
  return way;
}

}  // namespace asking
