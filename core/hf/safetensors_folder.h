#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/checkpoint/safetensors.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// The tensors of a model folder: model.safetensors, or the files that model.safetensors.index.json names.
/// Throws Error naming the folder or file when there are none, an index's file or tensor is missing, or the
/// weights come only as pickled .bin files.
class SafetensorsFolder {
 public:
  explicit SafetensorsFolder(const std::filesystem::path& folder);
  /// The same, but files that are missing, truncated or damaged, and tensors that their file does not hold, are added
  /// to `faults`, all of them; the rest can be read. `file`: the one that is meant; empty: those of a model.
  SafetensorsFolder(const std::filesystem::path& folder, Diagnostics& faults, const std::string& file = {});

  std::vector<std::string> names() const;
  /// The file that holds this tensor, or null.
  const checkpoint::SafetensorsFile* find(const std::string& name) const;
  /// Is this tensor missing because of a fault? True for every name if the only file cannot be read, since its content
  /// is unknown. False for tensors that are cut off: they are known, and their file reports that they cannot be read.
  bool is_lost(const std::string& name) const { return all_lost_ || lost_.contains(name); }

 private:
  void open(const std::filesystem::path& folder, Diagnostics& faults);
  void open_one(const std::filesystem::path& file, Diagnostics& faults);
  void open_index(const std::filesystem::path& index, Diagnostics& faults);
  std::set<std::string> lost_;                                                 ///< tensors that are missing by a fault
  bool all_lost_ = false;                                                      ///< the only file cannot be read
  std::map<std::string, std::unique_ptr<checkpoint::SafetensorsFile>> files_;  ///< by file name
  std::map<std::string, const checkpoint::SafetensorsFile*> tensors_;          ///< the file of each tensor
};

}  // namespace hf
CAPSTAN_END_NAMESPACE
