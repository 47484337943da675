#include <capstan/base/json.h>
#include <capstan/config/model_path.h>

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

namespace capstan::config {
namespace {

namespace fs = std::filesystem;

/// A hub id and what it says of the revision.
struct HubId {
  std::string id;
  std::string revision = "main";
};

bool is_option(const ModelName& name) { return !name.option.empty(); }
std::string subject(const ModelName& name) { return is_option(name) ? name.option + ": " : ""; }

// Part of a repository's name on the hub: letters, digits, '-', '_', '.', no dots at its ends.
bool is_hub_part(const std::string& text) {
  const auto is_allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
  return !text.empty() && text.size() <= 96 && std::all_of(text.begin(), text.end(), is_allowed) &&
         text.front() != '.' && text.back() != '.' && text.front() != '-' && text.back() != '-';
}

// Ids of one word ("gpt2") are those of the hub's first models.
std::optional<HubId> hub_id(const std::string& text) {
  HubId out;
  const auto at = text.find('@');
  out.id = text.substr(0, at);
  if (at != std::string::npos) out.revision = text.substr(at + 1);
  const auto parts = split(out.id, '/');
  if (parts.empty() || parts.size() > 2 || out.revision.empty()) return {};
  if (!std::all_of(parts.begin(), parts.end(), is_hub_part)) return {};
  return out;
}

// The snapshot that the cache's own files say is meant; nothing when it has none.
std::optional<fs::path> snapshot(const HubId& id, const fs::path& cache) {
  std::string name = "models";
  for (const auto& part : split(id.id, '/')) name += "--" + part;
  const auto repository = cache / name;
  const auto snapshots = repository / "snapshots";
  if (!is_folder(snapshots)) return {};
  if (const auto ref = repository / "refs" / id.revision; is_file(ref)) {
    const auto folder = snapshots / trim(read_file(ref));
    if (is_folder(folder)) return folder;
  }
  if (is_folder(snapshots / id.revision)) return snapshots / id.revision;
  // A download of one commit by its hash leaves no ref.
  const auto all = entries_of(snapshots);
  if (all.size() == 1 && id.revision == "main") return all.front();
  return {};
}

// VARIABLE='…' as a shell takes it.
std::string shell_setting(const std::string& setting) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-_./=:@%+,").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (std::all_of(setting.begin(), setting.end(), is_plain)) return setting;
  const auto begin = setting.find('=') + 1;
  auto out = setting.substr(0, begin) + "'";
  for (const char c : setting.substr(begin)) out += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  return out + "'";
}

// Weights and everything that describes them; what other programs' files there are stays away.
std::string download_command(const HubId& id, const HubCache& hub) {
  const auto revision = id.revision == "main" ? std::string() : " --revision " + id.revision;
  return cat(shell_setting(hub.variable), hub.variable.empty() ? "" : " ", "hf download ", id.id, revision,
             R"( --include "*.[js]*")");
}

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_directory(ignored)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The cached model whose id is like this one; "" when there is none.
std::string near_in_cache(const HubId& id, const fs::path& cache) {
  std::vector<std::string> ids;
  for (const auto& name : folders_in(cache)) {
    if (!name.starts_with("models--")) continue;
    auto known = name.substr(std::string_view("models--").size());
    if (const auto dash = known.find("--"); dash != std::string::npos) known.replace(dash, 2, "/");
    ids.push_back(known);
  }
  return nearest_name(id.id, ids);
}

// Why a path that is no hub id leads nowhere.
[[noreturn]] void no_folder(const ModelName& name) {
  const auto what = cat(subject(name), "there is no folder ", name.absolute);
  for (const std::string_view page : {"https://huggingface.co/", "http://huggingface.co/", "huggingface.co/"}) {
    if (name.written.starts_with(page))
      throw Error(what, cat("write '", name.written.substr(page.size()), "', without the page's address"), name.where);
  }
  if (name.written.starts_with("~")) throw Error(what, "write the whole path: only a shell knows '~'", name.where);
  const fs::path path(name.absolute);
  const auto near = nearest_name(path.filename().string(), folders_in(path.parent_path()));
  if (!near.empty()) throw Error(what, cat("did you mean '", (path.parent_path() / near).string(), "'?"), name.where);
  throw Error(what,
              cat("name a Hugging Face model folder", is_option(name) ? "" : ", a run's folder, one of its checkpoints",
                  ", or a model of the hub as ORGANISATION/NAME"),
              name.where);
}

// "models/bloom" where a folder models exists is a mistyped path; so is a word without an organisation.
bool is_path(const HubId& id, const ModelName& name) {
  return id.id.find('/') == std::string::npos || is_folder(fs::path(name.absolute).parent_path());
}

// The first file of weights that a download has not brought: one that the index names, or model.safetensors where there
// is no index; "" when none is missing. Folders of *.bin are another matter.
std::string lacking_weights(const fs::path& folder) {
  const auto index = folder / "model.safetensors.index.json";
  if (is_there(folder / "model.safetensors")) return {};
  if (is_there(index)) {
    const auto json = try_parse_json(read_file(index));
    if (!json.is_object() || !json.contains("weight_map") || !json.at("weight_map").is_object()) return {};
    for (const auto& [tensor, file] : json.at("weight_map").items()) {
      if (file.is_string() && !is_there(folder / file.get<std::string>())) return file.text();
    }
    return {};
  }
  for (const auto& path : entries_of(folder)) {
    const auto type = path.extension();
    if (type == ".safetensors" || type == ".bin") return {};
  }
  return "model.safetensors";
}

// What a download that was not finished has left out.
void refuse_lacking(const fs::path& folder, const std::string& file, const HubId& id, const ModelName& name,
                    const HubCache& hub) {
  if (file.empty() || is_there(folder / file)) return;
  throw Error(
      cat(subject(name), id.id, " is in the hub's cache only in part: ", (folder / file).string(), " is not there"),
      cat("download the rest where there is a network: ", download_command(id, hub)), name.where);
}

}  // namespace

HubCache hub_cache(const std::function<std::optional<std::string>(const std::string&)>& environment) {
  const auto value = [&](const char* name) { return environment(name).value_or(""); };
  const fs::path hub = value("HF_HUB_CACHE"), home = value("HF_HOME"), xdg = value("XDG_CACHE_HOME"),
                 user = value("HOME");
  if (!hub.empty()) return {hub, "HF_HUB_CACHE=" + hub.string()};
  if (!home.empty()) return {home / "hub", "HF_HOME=" + home.string()};
  if (!xdg.empty()) return {xdg / "huggingface" / "hub", "XDG_CACHE_HOME=" + xdg.string()};
  if (!user.empty()) return {user / ".cache" / "huggingface" / "hub", ""};
  return {};
}

std::filesystem::path find_model(const ModelName& name, const HubCache& hub) {
  if (is_folder(name.absolute)) return name.absolute;
  if (is_there(name.absolute)) {
    throw Error(cat(subject(name), name.absolute, " is a file"),
                "name the folder that holds config.json and *.safetensors", name.where);
  }
  const auto id = hub_id(name.written);
  if (!id) no_folder(name);
  if (!hub.folder.empty()) {
    if (const auto folder = snapshot(*id, hub.folder)) {
      refuse_lacking(*folder, "config.json", *id, name, hub);
      refuse_lacking(*folder, lacking_weights(*folder), *id, name, hub);
      return *folder;
    }
  }
  if (is_path(*id, name)) no_folder(name);
  const auto near = hub.folder.empty() ? std::string() : near_in_cache(*id, hub.folder);
  throw Error(cat(subject(name), "there is no folder ", name.absolute, ", and no model ", id->id,
                  id->revision == "main" ? std::string() : " of revision " + id->revision, " in the hub's cache ",
                  hub.folder.empty() ? "(HOME and HF_HOME are not set)" : hub.folder.string()),
              cat(near.empty() || near == id->id ? "" : cat("did you mean '", near, "'? Or "),
                  "download it where there is a network: ", download_command(*id, hub),
                  " (a gated model also needs your token: docs/model-files.md)"),
              name.where);
}

std::optional<std::filesystem::path> find_tokenizer(const ModelName& name, const HubCache& hub,
                                                    const std::vector<std::string>& files) {
  const auto id = hub_id(name.written);
  if (!id || is_there(name.absolute) || name.written.ends_with(".json")) return {};
  const bool is_cached = !hub.folder.empty() && snapshot(*id, hub.folder);
  if (!is_cached && is_path(*id, name)) return {};
  if (!is_cached) return find_model(name, hub);  // it says how to get it
  auto folder = snapshot(*id, hub.folder);
  const auto has = [&](const std::string& file) { return is_there(*folder / file); };
  if (!files.empty() && std::none_of(files.begin(), files.end(), has))
    refuse_lacking(*folder, files.front(), *id, name, hub);
  return folder;
}

}  // namespace capstan::config
