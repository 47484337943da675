#include "app/model_choice.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "setup/weights.h"

namespace capstan::app {
namespace {

namespace fs = std::filesystem;

std::string model_type_of(const fs::path& file) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(read_file(file));
  } catch (const nlohmann::json::exception& error) {
    throw Error(cat("it is no JSON: ", error.what()), "download the model's folder again", file.string());
  }
  const auto found = json.is_object() ? json.find("model_type") : json.end();
  if (found == json.end() || !found->is_string())
    throw Error("it names no model_type", "name a Hugging Face model folder of a causal language model", file.string());
  return found->get<std::string>();
}

// The plugin whose option model_type has this family among its choices.
std::string plugin_for(const std::string& type, const fs::path& file, plugin::Host& host) {
  std::vector<std::string> known;
  for (const auto& found : host.discover()) {
    if (found.kind != "model" || !found.registration) continue;
    for (const auto& option : found.registration->schema) {
      if (option.key != "model_type") continue;
      if (std::find(option.choices.begin(), option.choices.end(), type) != option.choices.end()) return found.name;
      known.insert(known.end(), option.choices.begin(), option.choices.end());
    }
  }
  throw Error(cat("no model plugin knows model_type '", type, "'"), suggestion(type, known), file.string());
}

ModelChoice of_run(const fs::path& run, const fs::path& weights) {
  return {(run / "config.toml").string(), {}, setup::find_weights(weights).string(), run.string()};
}

}  // namespace

ModelChoice choose_model(const fs::path& folder, plugin::Host& host) {
  const auto path = fs::absolute(folder).lexically_normal();
  if (fs::exists(path / "config.toml")) return of_run(path, path);
  if (fs::exists(path / "config.json")) {
    const auto plugin = plugin_for(model_type_of(path / "config.json"), path / "config.json", host);
    const auto name = path.has_filename() ? path.filename() : path.parent_path().filename();
    return {
        {},
        {"model.plugin=" + plugin, cat("model.path=\"", path.string(), "\""), cat("run.name=\"", name.string(), "\"")},
        {},
        {}};
  }
  if (fs::exists(path / "manifest.json")) {
    constexpr int levels = 3;  // <run>/checkpoints/step-00000100, and a slash at the end
    auto above = path.parent_path();
    for (int i = 0; i < levels; ++i, above = above.parent_path()) {
      if (fs::exists(above / "config.toml")) return of_run(above, path);
    }
    throw Error("these are weights without the run that they are of",
                "leave them in the run's folder, beside its config.toml", path.string());
  }
  throw Error(fs::exists(path) ? "this is no model's folder" : "there is no such folder",
              "name a Hugging Face model folder (config.json), a run's folder (config.toml) or one of its checkpoints",
              folder.string());
}

}  // namespace capstan::app
