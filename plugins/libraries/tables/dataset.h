#pragma once
#include "worker.h"

#include <capstan/config/model_path.h>

#include <string>
#include <vector>

namespace tables {

/// A dataset of the hub, or a folder that is laid out like one.
struct Dataset {
  std::string name;    ///< "squad", "org/name", "org/name@revision", or the whole path of a folder
  std::string config;  ///< of those that its README.md lists; empty: the only one, or the default
  std::string where;   ///< what named it
};

/// The dataset's folder: the one of this name, else the snapshot in the hub's cache. Throws Error that says how to
/// download it.
std::string folder_of(const Dataset& dataset, const capstan::config::HubCache& hub);

/// The commit of a snapshot in the hub's cache that the dataset's name does not say; empty: it does, or names a folder.
std::string unnamed_commit(const Dataset& dataset, const std::string& folder);

/// The files of a split, as the YAML of README.md says, else as their names do. Throws Error where there are none.
std::vector<std::string> files_of_split(const Dataset& dataset, const std::string& folder, const std::string& split,
                                        const Python& python);

}  // namespace tables
