#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>
#include <capstan/config/model_path.h>
#include <capstan/plugin/host.h>
#include <capstan/ranks/model_session.h>
#include <capstan/tokenizer/open.h>

#include <algorithm>

#include "hf/door.h"
#include "job/weights.h"
#include "tokenizer/byte_tokenizer.h"

namespace capstan::ranks {
namespace {

namespace fs = std::filesystem;

// What a name on the command line means: a path, or else a model of the hub that is in its cache.
fs::path find_place(const std::string& name, const config::HubCache& hub) {
  auto path = fs::absolute(name).lexically_normal();
  if (is_there(path)) return path;
  return config::find_model({name, path.string(), {}}, hub);
}

ModelChoice of_run(const fs::path& run, const fs::path& weights) {
  const auto named = weights.has_filename() ? weights : weights.parent_path();  // a slash at the end
  return {(run / "config.toml").string(), {}, job::find_weights(named).string(), run.string()};
}

// A run without a tokenizer reads bytes, and leaves a model of as many words in a folder without a tokenizer's file.
bool reads_bytes(const fs::path& folder, const plugin::Host& host) {
  const auto names = tokenizer::file_names(host);
  if (std::any_of(names.begin(), names.end(), [&](const auto& name) { return is_there(folder / name); })) return false;
  const auto config = try_parse_json(read_file(folder / "config.json"));
  return config.is_object() && config.value("vocab_size", Json()) == tokenizer::ByteTokenizer().vocab_size();
}

}  // namespace

ModelChoice choose_model(const std::string& name, const command::Call& call) {
  const auto path = find_place(name, config::hub_cache(call.environment));
  if (is_there(path / "config.toml")) return of_run(path, path);
  if (is_there(path / "config.json")) {
    const auto plugin = hf::door().plugin_of_folder(path.string(), call.plugins);
    // The id of a hub's model says more than the folder, which is a commit's hash.
    const auto given = is_there(name) ? path : fs::path(name.substr(0, name.find('@')));
    const auto own = given.has_filename() ? given.filename() : given.parent_path().filename();
    ModelChoice choice{{}, {"model.plugin=" + plugin, cat("model.path=\"", path.string(), "\"")}, {}, {}};
    choice.overrides.push_back(cat("run.name=\"", own.string(), "\""));
    if (reads_bytes(path, call.plugins)) choice.overrides.emplace_back("data.tokenizer=byte");
    return choice;
  }
  if (is_there(path / "manifest.json")) {
    constexpr int levels = 3;  // <run>/checkpoints/step-00000100, and a slash at the end
    auto above = path.parent_path();
    for (int i = 0; i < levels; ++i, above = above.parent_path()) {
      if (is_there(above / "config.toml")) return of_run(above, path);
    }
    throw Error("these are weights without the run that they are of",
                "leave them in the run's folder, next to its config.toml", path.string());
  }
  hf::door().refuse_adapter({path.string(), {}});
  throw Error("this is no model's folder",
              "name a Hugging Face model folder (config.json), a run's folder (config.toml) or one of its checkpoints",
              name);
}

}  // namespace capstan::ranks
