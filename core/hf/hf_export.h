#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/checkpoint/safetensors.h>
#include <capstan/layout/file_tensor.h>
#include <capstan/layout/param.h>
#include <capstan/layout/source.h>
#include <capstan/nn/codec.h>
#include <capstan/nn/model.h>

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hf/folder_source.h"

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// The sources of a Hugging Face folder's weights.
struct HfWeights {
  std::vector<const layout::Param*> records;  ///< the whole model's records, each once
  layout::FileMap map;
  layout::Source* values = nullptr;        ///< the values that were trained
  bool merged = false;                     ///< `values` provides frozen records too
  FolderSource* original = nullptr;        ///< what it was trained from: has names, dtypes and frozen records; or null
  layout::Source* frozen = nullptr;        ///< frozen records instead of the original; or null
  nn::Codecs codecs;                       ///< by record, where it is written in its codec's form
  c10::ScalarType compute = c10::kFloat;   ///< what values are rounded to before a codec encodes them
  std::optional<c10::ScalarType> dtype;    ///< the dtype of all tensors; nothing: the original's, else `fallback`
  c10::ScalarType fallback = c10::kFloat;  ///< dtype of a tensor that no original has
  std::int64_t shard_bytes = 5'000'000'000;  ///< a new file begins when the current one would exceed this size
};

/// Writes the weights of a Hugging Face folder on any number of ranks: each writes complete files of its own and holds
/// one tensor at a time. model.safetensors, or model-00001-of-0000N.safetensors and an index.
///
///     HfWriter writer(weights);                       // on every rank, with the same answer
///     writer.write(folder, rank, world_size);         // each its files
///     if (rank == 0) writer.write_index(folder);
class HfWriter {
 public:
  /// Throws Error with the names of records that such a folder cannot hold.
  explicit HfWriter(HfWeights weights);

  /// This rank's files. Throws Error for a value that its dtype cannot hold.
  void write(const std::filesystem::path& folder, int rank, int world_size) const;
  /// All tensors, in memory: for small models.
  std::vector<checkpoint::NamedTensor> values() const;
  /// The index, if there are several files.
  void write_index(const std::filesystem::path& folder) const;

  std::size_t files() const { return files_.size(); }
  std::int64_t bytes() const;
  /// Whether any tensor is written in a codec's form.
  bool has_codes() const;
  /// Modules, with weights of at least two dimensions, that are written as numbers.
  std::vector<std::string> plain_modules() const;
  /// The dtype of most elements, as config.json states it.
  c10::ScalarType dtype() const;

 private:
  // A record's part of a tensor.
  struct RecordPart {
    const layout::Param* record = nullptr;
    const layout::FileTensor* place = nullptr;
    std::size_t stacked = 0;  // index into place->stack
  };
  struct Tensor {
    checkpoint::TensorHead head;
    std::vector<RecordPart> pieces;
    const nn::Codec* codec = nullptr;  // null: written as numbers
    bool is_kept = false;              // no record's: the original's tensor
    std::vector<checkpoint::TensorHead> heads() const;
    std::int64_t bytes() const;
  };
  using Parts = std::map<std::string, at::Tensor>;           // by full name
  const nn::Codec* codec_of(const RecordPart& piece) const;  // null: numbers
  void add(const std::string& name, const RecordPart& piece);
  void add_kept();
  std::string module_tensor(const Tensor& tensor) const;
  void share_out();
  at::Tensor read(const Tensor& tensor) const;
  Parts encoded(const Tensor& tensor) const;
  void write_file(const std::filesystem::path& path, const std::vector<std::size_t>& tensors) const;
  layout::Source& source_of(const layout::Param& record) const;

  HfWeights weights_;
  std::vector<Tensor> tensors_;                  // in the model's order
  std::map<std::string, std::size_t> places_;    // the records' ones in tensors_, by name
  std::vector<std::vector<std::size_t>> files_;  // tensors of each
};

/// The tensors of a folder in memory, as numbers: see Door::tensors.
std::vector<checkpoint::NamedTensor> folder_tensors(const std::vector<const layout::Param*>& records,
                                                    const layout::FileMap& map, layout::Source& values,
                                                    c10::ScalarType dtype);

/// Records that have no place in the map's files: adapters, a model's own additions.
std::vector<std::string> without_place(const std::vector<const layout::Param*>& records, const layout::FileMap& map);

/// What is wrong with the name under which the head's matrix would be written, where it is not the token table and no
/// folder that the model came from says it; empty: nothing. transformers gives a head that it does not find random
/// values, and only warns.
std::string misnamed_head(const std::vector<nn::Unit*>& units, const layout::FileMap& map);

}  // namespace hf
CAPSTAN_END_NAMESPACE
