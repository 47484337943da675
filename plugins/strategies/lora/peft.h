#pragma once
#include <capstan/base/error.h>
#include <capstan/checkpoint/folder_source.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan/layout/file_tensor.h>
#include <capstan/layout/source.h>
#include <capstan/nn/adapter.h>
#include <capstan/nn/model.h>
#include <capstan/strategy/exporter.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "peft_config.h"

namespace lora {

namespace checkpoint = capstan::checkpoint;
namespace layout = capstan::layout;
namespace nn = capstan::nn;

/// A tensor of a PEFT adapter file, and the elements of records that it consists of.
///
/// An adapter that several modules share (one A for q, k and v) is in the file once per module, with its A repeated;
/// one of a stack of experts once per expert. Format: peft's save_pretrained, keys
/// base_model.model.<module>.lora_A.weight [rank, in] and .lora_B.weight [out, rank].
///
/// Where a module's matrices are parameters of its own (peft's target_parameters), an adapter of [experts, in, out] is
/// lora_A.weight [experts · rank, in] and lora_B.weight [out, rank · experts], under <module>, or for all but the last
/// of its parameters under <module>.base_layer.
struct PeftTensor {
  struct Part {
    const layout::Param* record = nullptr;
    layout::Box box;             ///< in the record, as a matrix [rows, columns of the tensor]
    std::int64_t first_row = 0;  ///< in the tensor
  };
  std::string key;
  layout::Shape shape;
  std::vector<Part> parts;
  /// Dimension i of the tensor is the record's order[i], which `shape` then joins; empty: it is the parts' rows.
  std::vector<std::int64_t> order = {};
  std::string parameter = {};  ///< which peft wraps in place of a module, by its full name; empty: it is a module's
};
std::vector<PeftTensor> peft_tensors(const std::vector<const nn::Adapter*>& adapters, const layout::FileMap& files);

/// The model's units, which outlive this, and the names of what a run trains in them. An evaluation trains nothing and
/// has the same names: their values are part of the adapter all the same.
struct Adapted {
  std::vector<const nn::Unit*> units;
  std::set<std::string> trained;
};

/// What a PEFT folder is made of.
struct PeftContents {
  std::vector<const nn::Adapter*> adapters;
  /// The model's own records that are trained too, each once, and buffers of modules that are trained whole.
  std::vector<const layout::Param*> trained;
  std::vector<const layout::Param*> tied;   ///< the model's own that two units use, trained or not
  std::vector<const layout::Param*> coded;  ///< those of `trained` that the model holds in another form
};
PeftContents peft_contents(const Adapted& adapted);
/// Why a PEFT folder cannot hold what is trained; empty: it can.
std::string not_peft(const PeftContents& contents, const layout::FileMap& files);

/// As transformers' causal-LM classes name a head that is the embedding; FileMap has no record of it.
inline constexpr const char* tied_head = "lm_head";
inline constexpr const char* tied_head_key = "base_model.model.lm_head.weight";
inline constexpr const char* peft_tensors_file = "adapter_model.safetensors";

/// Where a PEFT file holds the model's own records that were trained besides adapters: fully trained modules (peft's
/// modules_to_save) and biases.
///
/// Format: peft's save_pretrained, keys base_model.model.<module>.weight; a bias of a module with an adapter is
/// under <module>.base_layer.bias.
struct PeftWhole {
  layout::FileMap map;                       ///< only of these records; names are the file's keys
  std::vector<std::string> modules_to_save;  ///< full names, since peft selects every module whose name ends so
  std::string bias = "none";                 ///< "all", or "lora_only": some
  std::vector<const layout::Param*> tied;    ///< trained records that the file has a second time, as the head
};
PeftWhole peft_whole(const PeftContents& contents, const layout::FileMap& files);

/// "base_model.model.": what stands before every name in a PEFT file.
inline constexpr std::string_view peft_prefix = "base_model.model.";
/// The file's tensors that this one is made of.
std::vector<std::string> names_in(const layout::FileTensor& tensor);
/// The same records by the names of transformers' parameters, which some files have under other names.
layout::FileMap by_parameters(layout::FileMap files);
/// The name under which transformers has the module of a tensor: "model.layers.0.mlp.up_proj".
std::string module_of(const layout::FileMap& files, const std::string& tensor);
/// The modules that have an adapter, and the parameters that have one in place of their module.
std::vector<std::string> adapted_modules(const std::vector<PeftTensor>& tensors);
std::vector<std::string> adapted_parameters(const std::vector<PeftTensor>& tensors);

/// adapter_model.safetensors (float32) and adapter_config.json, which peft loads. The adapters' rank, alpha, scale and
/// dropout are the same.
class PeftExporter : public capstan::strategy::Exporter {
 public:
  /// Exports these.
  explicit PeftExporter(Adapted adapted) : adapted_(std::move(adapted)) {}
  std::string name() const override { return "peft"; }
  std::string folder() const override { return "adapter"; }
  bool at_end() const override { return !peft_contents(adapted_).adapters.empty(); }
  std::string refusal(const layout::FileMap& files) const override {
    return not_peft(peft_contents(adapted_), by_parameters(files));
  }
  std::string write(const std::filesystem::path& folder, const capstan::strategy::Exported& run) const override;

 private:
  Adapted adapted_;
};

/// Values of adapters, and of other trained records, from a PEFT folder.
class PeftSource : public layout::Source {
 public:
  /// Compares the folder's files with the contents: every fault at once, in one Error (missing files, features that are
  /// not supported, another rank or scale, tensors that are missing, have another shape or that the run does not use;
  /// an A that is not shared, a tied head that is not its embedding). Reads headers, and values only of an A that
  /// several modules share and of a head that is saved beside the embedding that it is.
  PeftSource(std::filesystem::path folder, const PeftContents& contents, const layout::FileMap& files);

  bool has(const layout::Param& param) const override {
    return adapters_.contains(param.name) || (whole_ && whole_->has(param));
  }
  void fill(const layout::Param& param, const layout::Box& box, const at::Tensor& out) override;

 private:
  // Rows of a tensor of the file, and the elements of a record that they hold.
  struct TensorRows {
    std::string key;
    layout::Box box;
    std::int64_t first_row = 0;
    std::vector<std::int64_t> order = {};  // as PeftTensor's
  };
  struct Record {
    layout::Shape shape;
    std::vector<TensorRows> pieces;
    std::vector<TensorRows> repeated;  // those of other modules that share the record
  };
  void find(const PeftTensor& tensor, capstan::Diagnostics& diagnostics);
  bool fits(const std::string& key, const layout::Shape& shape, capstan::Diagnostics& diagnostics) const;
  void judge_selection(const PeftConfig& config, const std::vector<PeftTensor>& tensors, const layout::FileMap& files,
                       const std::set<std::string>& used, capstan::Diagnostics& diagnostics) const;
  void judge_saved(const PeftConfig& config, const layout::FileMap& files, const std::set<std::string>& used,
                   capstan::Diagnostics& diagnostics) const;
  void judge_parameters(const PeftConfig& config, const std::vector<std::string>& adapted,
                        capstan::Diagnostics& diagnostics) const;
  void judge_tied(const PeftContents& contents, const layout::FileMap& files, std::set<std::string>& used,
                  capstan::Diagnostics& diagnostics) const;
  bool same_values(const std::string& one, const std::string& other) const;
  void refuse_unused(const std::set<std::string>& used, capstan::Diagnostics& diagnostics) const;
  void open_whole(const PeftContents& contents, const layout::FileMap& files, std::set<std::string>& used,
                  capstan::Diagnostics& diagnostics);
  void check_shared(capstan::Diagnostics& diagnostics) const;
  at::Tensor read(const TensorRows& piece) const;
  std::filesystem::path folder_;
  std::string table_;  // whose options made the adapters
  std::unique_ptr<const checkpoint::SafetensorsFile> file_;
  std::map<std::string, Record> adapters_;
  std::unique_ptr<layout::Source> whole_;  // for the model's own records
};

}  // namespace lora
