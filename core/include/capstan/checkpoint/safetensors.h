#pragma once
#include <capstan/base/export.h>
#include <capstan/base/files.h>
#include <capstan/layout/box.h>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// A tensor of a file, as its header describes it.
struct TensorInfo {
  c10::ScalarType dtype = c10::ScalarType::Float;
  layout::Shape shape;
  std::uint64_t begin = 0;  ///< first byte, from the start of the file's data
  std::uint64_t end = 0;    ///< behind the last
};

/// A safetensors file, mapped. The header is validated completely by the constructor, which throws Error naming
/// the file for one that is truncated or wrong. Reading is thread-safe.
/// Format: https://github.com/huggingface/safetensors#format
class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, TensorInfo>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// Throws Error for a name that the file does not have.
  const TensorInfo& info(const std::string& name) const;
  /// The tensor's bytes in the mapped file; they live as long as this object.
  const std::byte* bytes(const std::string& name) const;

  /// Copies a box of the tensor to `out`, whose sizes are the box's; it may be strided, of another dtype or on
  /// another device. Only the box's pages are touched.
  void read(const std::string& name, const layout::Box& box, const at::Tensor& out) const;
  /// The same with the tensor's elements seen in another shape of as many elements.
  void read(const std::string& name, const layout::Shape& shape, const layout::Box& box, const at::Tensor& out) const;

 private:
  std::filesystem::path path_;
  MappedFile file_;
  const std::byte* data_ = nullptr;
  std::map<std::string, TensorInfo> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// The tensors of a model folder: model.safetensors, or the files that model.safetensors.index.json names.
/// Throws Error naming the folder or file when there are none, an index's file or tensor is missing, or the
/// weights come only as pickled .bin files.
class SafetensorsFolder {
 public:
  explicit SafetensorsFolder(const std::filesystem::path& folder);

  std::vector<std::string> names() const;
  /// The file that holds this tensor, or null.
  const SafetensorsFile* find(const std::string& name) const;

 private:
  void open_index(const std::filesystem::path& index);
  std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;  // by file name
  std::map<std::string, const SafetensorsFile*> tensors_;
};

struct NamedTensor {
  std::string name;
  at::Tensor tensor;  ///< any device, any strides
};

/// Writes the file that Python's safetensors would write for these tensors, byte for byte: sorted by dtype, then
/// name; data 8-aligned. The file appears complete and on disk, or not at all. Throws Error naming the file.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
