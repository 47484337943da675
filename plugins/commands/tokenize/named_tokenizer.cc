#include "named_tokenizer.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/config/model_path.h>
#include <capstan/config/toml_values.h>

#include <filesystem>

namespace tokenize {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

tokenizer::Opened open(const std::string& name, const fs::path& from, const std::string& model_folder,
                       const command::Call& call) {
  const auto absolute = (from / name).lexically_normal().string();
  const auto folder = config::find_tokenizer({name, absolute, {}}, config::hub_cache(call.environment),
                                             tokenizer::file_names(call.plugins));
  const auto where = capstan::is_there(absolute) ? absolute : name;
  return tokenizer::open_named(folder ? folder->string() : where, model_folder, call.plugins);
}

tokenizer::Opened of_configuration(const std::string& file, const command::Call& call) {
  const auto values = config::toml_values(file);
  const auto text = [&](const std::string& key) {
    const auto found = values.find(key);
    const auto* value = found == values.end() ? nullptr : std::get_if<std::string>(&found->second);
    return value == nullptr ? std::string() : *value;
  };
  if (!text("tokenizer.plugin").empty()) {
    throw Error("its tokenizer is a plugin's, of [tokenizer]",
                "name a tokenizer that is a file or a folder, or let a "
                "program of that tokenizer's write the tokens",
                file);
  }
  const auto from = fs::absolute(file).parent_path();
  std::string model;
  if (const auto path = text("model.path"); !path.empty()) {
    model = config::find_model({path, (from / path).lexically_normal().string(), file, "model.path"},
                               config::hub_cache(call.environment))
                .string();
  }
  const auto name = text("data.tokenizer");
  return open(name.empty() ? "auto" : name, from, model, call);
}

}  // namespace

tokenizer::Opened named_tokenizer(const std::string& name, const command::Call& call) {
  if (name.ends_with(".toml")) return of_configuration(name, call);
  return open(name, fs::current_path(), {}, call);
}

}  // namespace tokenize
