#pragma once
#include <capstan/base/box.h>
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/record/safetensors.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// A checkpoint is a folder: each rank's boxes of logical tensors in one safetensors file, and manifest.json. That has
/// for every tensor its shape, its dtype, the place and the hashes of each of its boxes, and for the checkpoint the
/// step, the sections, the configuration, the mesh and the versions. Any layout reads what any layout wrote. It gets
/// its name only when all of it is on disk:
///
///     <run>/checkpoints/step-00000100/manifest.json, weights-00000-of-00004.safetensors, …
///     <run>/checkpoints/latest                         the newest one's name: a hint for people and scripts
///     <run>/checkpoints/step-00000200.tmp-4711.0/      being written, or left by a crash
///
/// Here is what can be known of it without reading tensors.

/// The manifest's entries about the checkpoint.
struct Meta {
  std::int64_t step = 0;                        ///< optimizer steps done
  std::map<std::string, std::string> sections;  ///< JSON text by owner: "schedule", "scaler", "cursor", "run", …
  std::string config;                           ///< the resolved configuration, as TOML
  std::map<std::string, double> metrics;        ///< the last values ("eval_loss"), for retention and `checkpoint ls`
  std::string mesh;                             ///< "dp 4", for people
  int world_size = 1;
  std::string version;  ///< version of the Capstan that wrote it; filled in by the writer
  std::string date;     ///< UTC, "2026-11-21T00:10:00Z"; filled in by the writer
};

struct Manifest;
struct TensorEntry;

/// A whole manifest of a version that this program does not read: a newer Capstan's. Its checkpoint is not damaged.
class OtherVersion : public Error {
 public:
  using Error::Error;
};

/// A committed checkpoint, as its manifest describes it.
class Checkpoint {
 public:
  /// Reads the manifest and checks the files: throws Error naming the folder or manifest.json if it is no checkpoint,
  /// or naming all files that are missing, truncated or of another length.
  explicit Checkpoint(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const Meta& meta() const;
  /// JSON text of a section. Throws Error when there is none of this name.
  const std::string& section(const std::string& name) const;
  bool has_section(const std::string& name) const { return meta().sections.contains(name); }

  /// Names of all tensors with this prefix, sorted.
  std::vector<std::string> tensors(const std::string& prefix = {}) const;
  bool has(const std::string& tensor) const;
  /// Throw Error for a tensor that does not exist.
  const layout::Shape& shape(const std::string& tensor) const;
  Dtype dtype(const std::string& tensor) const;

 protected:
  /// Throws Error for a tensor that does not exist.
  const TensorEntry& entry(const std::string& tensor) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<const Manifest> manifest_;
};

/// By what checkpoints are compared.
struct BestRule {
  std::string metric = {};  ///< one of Meta::metrics: "eval_loss"; empty: none is the best
  bool lowest = true;       ///< is the smallest value the best?
  bool is_better(double value, double than) const { return lowest ? value < than : value > than; }
  /// As the manifests of a run that keeps its best have it, in this section.
  std::string text() const;
  static constexpr const char* section = "best";
};

/// A checkpoint and its value by a rule.
struct Best {
  std::filesystem::path path;
  std::int64_t step = 0;
  double value = 0;
};
/// The best of these by the values in their manifests; of equal ones the earliest. None has a value: nothing.
std::optional<Best> best_by(const BestRule& rule, const std::vector<Checkpoint>& all);
/// The same by the rule in the newest manifest whose rule finds one: where a run continues with another metric, the old
/// best is the best until an evaluation has given the new one.
std::optional<Best> best_kept(const std::vector<Checkpoint>& newest_first);

/// How thoroughly a checkpoint is checked: manifest, files and their headers; or also every byte.
enum class Depth { structure, hashes };

/// Called while verifying, with bytes done and bytes in all (of this rank's share).
using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

/// What is wrong with a checkpoint.
struct Verdict {
  /// For each file that is missing, truncated or of another save, each box whose data does not match its hash.
  Diagnostics faults;
  /// False: the file system failed to read something that exists (or may exist). These faults say nothing about the
  /// checkpoint, which may be valid.
  bool is_readable = true;
};
/// Where `ranks` verify together, rank `rank` hashes about as many bytes as every other one.
Verdict verify_share(const std::filesystem::path& path, Depth depth, const Progress& progress = {}, int rank = 0,
                     int ranks = 1);

/// Committed checkpoints ("step-…"), the newest step first; their content is not read. None if the folder does not
/// exist; throws FileError if it cannot be read.
std::vector<std::filesystem::path> committed(const std::filesystem::path& folder);
/// The ones whose files are complete (hashes are not checked); the others are logged.
std::vector<Checkpoint> whole_ones(const std::filesystem::path& folder);
/// "<folder>/step-00000100".
std::filesystem::path step_folder(const std::filesystem::path& folder, std::int64_t step);

/// All throw FileError for a path that cannot be checked: it may exist.

/// Is it the folder of a checkpoint, or of final weights?
bool is_checkpoint(const std::filesystem::path& path);
/// Is it the file `latest`, which names its folder's last save?
bool is_latest(const std::filesystem::path& path);
/// The folder of checkpoints that a path from a user means: the one inside a run's folder, the one of `latest`, or the
/// path itself.
std::filesystem::path folder_at(const std::filesystem::path& path);

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
