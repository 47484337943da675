#pragma once
#include <capstan/base/box.h>
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/base/files.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace checkpoint {

/// What elements are, in safetensors' own order (the enumeration of its reference implementation), which its writer
/// sorts by.
enum class Dtype { boolean, u8, i8, f8_e5m2, f8_e4m3, f8_e8m0, i16, u16, f16, bf16, i32, u32, f32, f64, i64, u64 };
/// "BF16", as files name it.
std::string dtype_name(Dtype dtype);
/// Bytes of an element.
std::int64_t dtype_bytes(Dtype dtype);

/// A tensor of a file, as its header describes it.
struct TensorInfo {
  Dtype dtype = Dtype::f32;
  layout::Shape shape;
  std::uint64_t begin = 0;  ///< first byte, from the start of the file's data
  std::uint64_t end = 0;    ///< one past the last
};

/// A safetensors file, mapped. The header is validated completely by the constructor, which throws Error naming
/// the file for one that is truncated or invalid. Format: https://github.com/huggingface/safetensors#format
class MappedTensors {
 public:
  explicit MappedTensors(std::filesystem::path path);
  /// The same, but for a truncated file the missing tensors are added to `faults`: its header still lists them.
  MappedTensors(std::filesystem::path path, Diagnostics& faults);

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, TensorInfo>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// Throws Error for a name that the file does not have.
  const TensorInfo& info(const std::string& name) const;
  /// The tensor's bytes in the mapped file; they live as long as this object.
  const std::byte* bytes(const std::string& name) const { return data_ + info(name).begin; }
  /// Is the tensor in the file to its end?
  bool is_whole(const TensorInfo& tensor) const {
    return static_cast<std::uint64_t>(data_ - file_.data()) + tensor.end <= file_.size();
  }

 private:
  void parse(Diagnostics& faults);
  std::filesystem::path path_;
  MappedFile file_;
  const std::byte* data_ = nullptr;
  std::map<std::string, TensorInfo> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace checkpoint
CAPSTAN_END_NAMESPACE
