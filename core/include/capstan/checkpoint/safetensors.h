#pragma once
#include <capstan/base/box.h>
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/record/safetensors.h>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

class DurableFile;

/// LibTorch's name of it.
c10::ScalarType torch_dtype(Dtype dtype);
/// The way back. Throws Error for a dtype that safetensors does not have.
Dtype dtype_of(c10::ScalarType dtype);

/// A safetensors file whose tensors can be read, which throws Error for one that is cut off. Thread-safe.
class SafetensorsFile : public MappedTensors {
 public:
  using MappedTensors::MappedTensors;

  /// Copies a box of the tensor to `out`, which has the box's sizes; it may be strided, have another dtype or be on
  /// another device. Only the box's pages are touched.
  void read(const std::string& name, const layout::Box& box, const at::Tensor& out) const;
  /// The same with the tensor viewed in another shape of as many elements.
  void read(const std::string& name, const layout::Shape& shape, const layout::Box& box, const at::Tensor& out) const;
};

/// The tensors of a model folder: model.safetensors, or the files that model.safetensors.index.json names.
/// Throws Error naming the folder or file when there are none, an index's file or tensor is missing, or the
/// weights come only as pickled .bin files.
class SafetensorsFolder {
 public:
  explicit SafetensorsFolder(const std::filesystem::path& folder);
  /// The same, but files that are missing, truncated or damaged, and tensors that their file does not hold, are added
  /// to `faults`, all of them; the rest can be read.
  SafetensorsFolder(const std::filesystem::path& folder, Diagnostics& faults);
  /// The same of this one file.
  SafetensorsFolder(const std::filesystem::path& folder, Diagnostics& faults, const std::string& file);

  std::vector<std::string> names() const;
  /// The file that holds this tensor, or null.
  const SafetensorsFile* find(const std::string& name) const;
  /// Is this tensor missing because of a fault? True for every name if the only file cannot be read, since its content
  /// is unknown. False for tensors that are cut off: they are known, and their file reports that they cannot be read.
  bool is_lost(const std::string& name) const { return all_lost_ || lost_.contains(name); }

 private:
  void open(const std::filesystem::path& folder, Diagnostics& faults);
  void open_one(const std::filesystem::path& file, Diagnostics& faults);
  void open_index(const std::filesystem::path& index, Diagnostics& faults);
  std::set<std::string> lost_;
  bool all_lost_ = false;
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;  // by file name
  std::map<std::string, const SafetensorsFile*> tensors_;
};

/// A tensor's entry in a file that is to be written.
struct TensorHead {
  std::string name;
  c10::ScalarType dtype = c10::ScalarType::Float;
  layout::Shape shape;
};

/// Writes a file tensor by tensor, so that only one of them need be in memory. The file is what Python's safetensors
/// would write for these tensors, byte for byte: sorted by dtype, then name; data 8-aligned. It appears complete and
/// on disk with finish(), or not at all. Throws Error naming the file.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorHead> tensors,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// The tensors in the order in which add() takes them.
  const std::vector<TensorHead>& order() const { return order_; }
  /// The next tensor has the dtype and shape that were declared; any device, any strides.
  void add(const at::Tensor& tensor);
  /// After the last.
  void finish();

 private:
  std::vector<TensorHead> order_;
  std::size_t next_ = 0;
  std::unique_ptr<DurableFile> file_;
};

struct NamedTensor {
  std::string name;
  at::Tensor tensor;  ///< any device, any strides
};

/// All of it at once with a SafetensorsWriter.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
