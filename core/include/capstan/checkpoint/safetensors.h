#pragma once
#include <capstan/base/box.h>
#include <capstan/base/export.h>
#include <capstan/record/safetensors.h>

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
