#pragma once
#include <capstan/base/export.h>
#include <capstan/plugin/host.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace session {

/// How a run is written for other programs.
struct ExportForm {
  std::string to = "hf";          ///< a Hugging Face model folder, or what a strategy of the run writes
  std::string quantization = {};  ///< hf: frozen weights in this form; empty: as numbers
  bool merge = false;             ///< hf: adapters are added into the model
  std::string dtype = "auto";     ///< hf: auto, fp32, bf16 or fp16
  std::int64_t shard_bytes = 0;   ///< hf: largest file; 0: as a run writes it
};

/// A run whose weights are written for other programs.
class RunToExport {
 public:
  using Environment = std::function<std::optional<std::string>(const std::string&)>;
  /// `run`: the folder with its config.toml. Throws Error with what is wrong with that. `host` outlives it.
  static std::unique_ptr<RunToExport> open(const std::filesystem::path& run, const Environment& env,
                                           plugin::Host& host);
  virtual ~RunToExport() = default;

  /// What a run calls such a folder of its own: "model". Throws Error for what does not go with the run, or together.
  virtual std::string folder_of(const ExportForm& form) const = 0;
  /// Writes the weights in `weights` (a run's folder, or one of its checkpoints) to `out`, in this process. The folder
  /// appears when it is complete. folder_of() has allowed the form. Returns what was written, in a line.
  virtual std::string write(const ExportForm& form, const std::filesystem::path& weights,
                            const std::filesystem::path& out) const = 0;
};

}  // namespace session
CAPSTAN_END_NAMESPACE
