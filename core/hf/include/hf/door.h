#pragma once
// libcapstan_hf.so: all that Capstan knows of Hugging Face's model folders. What is in such a folder comes out as
// options and as a Source, and a folder is written from options, a Source and a FileMap. The engine opens the library
// where model.path names a folder, and at the end of a run that saves its weights.
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan/comm/communicator.h>
#include <capstan/config/options.h>
#include <capstan/layout/file_tensor.h>
#include <capstan/layout/param.h>
#include <capstan/layout/source.h>
#include <capstan/nn/codec.h>
#include <capstan/nn/model.h>
#include <capstan/plugin/host.h>
#include <capstan/session/run_to_export.h>
#include <capstan/tokenizer/open.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hf/model_folder.h"
#include "plugin/side_library.h"

CAPSTAN_BEGIN_NAMESPACE
namespace setup {
struct TrainOptions;
}
namespace job {
struct Plugins;
}
namespace hf {

/// The folder whose tensors are wanted.
struct FolderToOpen {
  std::filesystem::path path;              ///< the folder
  layout::FileMap map = {};                ///< where each record is in its tensors
  std::string file = {};                   ///< the one file of it that is meant; empty: those of its model
  nn::Codecs codecs = {};                  ///< the codecs of frozen weights, which read packed matrices
  std::vector<nn::PackedForm> forms = {};  ///< how packed matrices are recognised
};

/// The tensors of a folder as a source. Several threads may fill at once.
class Folder : public layout::Source, public nn::CodedSource {
 public:
  /// What is wrong with its files: those that are missing, truncated or damaged.
  virtual const Diagnostics& faults() const = 0;
  /// Compares the folder with all of a model's records: faults(), missing tensors, tensors of another shape or without
  /// a floating-point dtype, tensors that no record uses, each kind one fault with its names; packed matrices that no
  /// codec takes, or not as they are.
  virtual void check(const std::vector<const layout::Param*>& params, Diagnostics& diagnostics) const = 0;
  /// For people: what becomes of tensors that are read otherwise than as they are, or not at all.
  virtual std::vector<std::string> notes(const std::vector<const layout::Param*>& params) const = 0;
  /// Whether nothing of the parameter is in the folder, as FileMap::may_be_absent allows.
  virtual bool may_lack(const layout::Param& param) const = 0;
};

/// What a folder is written from, besides the values.
struct ModelToWrite {
  const job::Plugins& plugins;
  const tokenizer::Opened& tokenizer;
  const setup::TrainOptions& train;
  std::vector<nn::Unit*> units;                ///< the model's, with what strategies added
  std::vector<std::int64_t> answer_ends = {};  ///< ids that the run's answers end with
};

/// What is said of a folder that was written.
struct WrittenModel {
  std::filesystem::path folder;
  std::int64_t bytes = 0;                     ///< size of its tensors
  std::size_t files = 0;                      ///< files that hold them
  std::string dtype;                          ///< "bfloat16"
  bool has_tokenizer = false;                 ///< the run's tokenizer has files, which are there too
  std::vector<std::int64_t> added_ends = {};  ///< answer_ends that its eos_token_id would not have had
};

/// The library's functions. All throw Error; those that take a folder name the file or where it was asked for.
struct Door {
  /// The model plugin that reads this folder: whose option model_type has that of its config.json among its choices.
  std::string (*plugin_of_folder)(const std::string& folder, plugin::Host& host);
  /// Refuses a folder whose config.json is of a family that this plugin does not read, by its name.
  void (*check_family)(const config::Section& section, const ModelFolder& folder,
                       const plugin::Registration& registration, plugin::Host& host);
  /// How the folder's weights are quantized; nothing: they are not.
  std::optional<Quantization> (*quantization_of_folder)(const std::string& folder);
  /// Refuses a folder that has an adapter and no model, or both where no strategy reads the adapter.
  void (*refuse_adapter)(const ModelFolder& folder);
  /// Adds what the folder's config.json says of the model's options, as a layer below the configuration.
  FromFolder (*with_model_file)(const config::Section& section, const ModelFolder& folder,
                                const plugin::Registration& registration);
  /// Where a model's records are in this folder: `map`, or the same inside of a model around it.
  layout::FileMap (*map_in)(const std::string& folder, layout::FileMap map);
  /// Its tensors; what is wrong with single files is in faults(). Throws Error for a folder that holds no safetensors.
  std::unique_ptr<Folder> (*open)(const FolderToOpen& folder);
  /// The tensors that `map` makes of records, under their published names, in memory.
  std::vector<checkpoint::NamedTensor> (*tensors)(const std::vector<const layout::Param*>& records,
                                                  const layout::FileMap& map, layout::Source& values,
                                                  c10::ScalarType dtype);
  /// Why this model cannot be written as a folder; empty: it can.
  std::string (*not_exportable)(const job::Plugins& plugins, const std::vector<nn::Unit*>& units);
  /// Writes a folder that transformers loads: config.json, weights, and from where the run had them
  /// generation_config.json and the tokenizer's files. `values` gives the records of its units, frozen ones come from
  /// model.path's own files. Each rank writes files of its own and no rank holds more than one tensor. The folder
  /// appears at its name when it is complete; one that stands there is replaced. A collective: an error of any rank is
  /// thrown on all of them.
  WrittenModel (*write)(const ModelToWrite& model, layout::Source& values, const std::filesystem::path& folder,
                        const session::ExportForm& form, comm::Communicator& communicator);
};

/// Opens the library the first time. Throws Error where its file is missing.
inline const Door& door() { return plugin::door_of<Door>("hf"); }

}  // namespace hf
CAPSTAN_END_NAMESPACE
