#include "dataset.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <filesystem>

namespace tables {

using namespace capstan;
namespace fs = std::filesystem;

namespace {

/// A hub id and what it says of the revision.
struct HubId {
  std::string id;
  std::string revision;
};

HubId hub_id(const std::string& name) {
  const auto at = name.find('@');
  return {name.substr(0, at), at == name.npos ? "main" : name.substr(at + 1)};
}

// huggingface_hub's layout: datasets--ORG--NAME/{refs/REVISION, snapshots/COMMIT}. Empty: it is not there.
std::string snapshot(const HubId& id, const fs::path& cache) {
  std::string name = "datasets";
  for (const auto& part : split(id.id, '/')) name += "--" + part;
  const auto snapshots = cache / name / "snapshots";
  if (const auto ref = cache / name / "refs" / id.revision; is_file(ref)) {
    const auto folder = snapshots / trim(read_file(ref));
    if (is_folder(folder)) return folder.string();
  }
  return is_folder(snapshots / id.revision) ? (snapshots / id.revision).string() : std::string();
}

}  // namespace

std::string folder_of(const Dataset& dataset, const config::HubCache& hub) {
  if (fs::path(dataset.name).is_absolute()) {
    if (is_folder(dataset.name)) return dataset.name;
    throw Error(cat("there is no folder ", dataset.name), "name a dataset's folder, or one of the hub as org/name",
                dataset.where);
  }
  const auto id = hub_id(dataset.name);
  auto folder = hub.folder.empty() ? std::string() : snapshot(id, hub.folder);
  if (!folder.empty()) return folder;
  const auto revision = id.revision == "main" ? std::string() : " --revision " + id.revision;
  throw Error(cat("there is no dataset ", dataset.name, " in the hub's cache ",
                  hub.folder.empty() ? "(HOME and HF_HOME are not set)" : hub.folder.string()),
              cat("download it where there is a network: ", hub.variable, hub.variable.empty() ? "" : " ",
                  "hf download --repo-type dataset ", id.id, revision),
              dataset.where);
}

std::string unnamed_commit(const Dataset& dataset, const std::string& folder) {
  if (fs::path(dataset.name).is_absolute()) return {};
  auto commit = fs::path(folder).filename().string();
  return commit == hub_id(dataset.name).revision ? std::string() : commit;
}

std::vector<std::string> files_of_split(const Dataset& dataset, const std::string& folder, const std::string& split,
                                        const Python& python) {
  const auto answer = ask_python(python, splits_script,
                                 Json{{"folder", folder}, {"config", dataset.config}, {"split", split}}, dataset.where);
  std::vector<std::string> files;
  for (const auto& file : answer.at("files")) files.push_back(file.get<std::string>());
  return files;
}

}  // namespace tables
