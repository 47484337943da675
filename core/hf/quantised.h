#pragma once
#include <capstan/base/box.h>
#include <capstan/base/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hf/safetensors_folder.h"

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// Matrices that a folder holds as codes and scales, decoded to numbers by their method's formula in float32:
///
/// fp8: `weight` e4m3 [rows, columns], `weight_scale_inv` [⌈rows / m⌉, ⌈columns / n⌉] for blocks [m, n] of
/// quantization_config.weight_block_size (128 x 128 where it is left out), or one number for the whole; a number is
/// code · scale (transformers' FineGrainedFP8, DeepSeek-V3). `activation_scale` is of inputs, which training does not
/// quantize.
///
/// bitsandbytes' 4 bits: `weight` U8 [elements / 2, 1], the first of two codes in the higher bits; a number is
/// quant_map[code] · absmax[block], and an absmax of 8 bits is nested_quant_map[code] · nested_absmax[group] + offset.
class Quantised {
 public:
  Quantised() = default;
  /// It has matrices where the folder's config.json says such a method. `tensors` outlives it.
  Quantised(const std::filesystem::path& folder, const SafetensorsFolder& tensors);

  /// The shape of the matrix that the tensor holds in codes; nothing: it holds numbers.
  std::optional<layout::Shape> shape_of(const std::string& name) const;
  /// The matrix that the tensor accompanies; empty: none.
  std::string matrix_of(const std::string& name) const;
  /// Why the matrix cannot be decoded; empty: it can.
  std::string fault_of(const std::string& name) const;
  /// Numbers of a box, to `out` of its sizes and any floating-point dtype; it may be strided. `shape`: what the matrix
  /// is seen as. Throws Error for a fault.
  void read(const std::string& name, const layout::Shape& shape, const layout::Box& box, const at::Tensor& out) const;

  /// "in FP8 with a scale for each 128 x 128".
  std::string words() const;

 private:
  enum class Method { none, fp8, four_bits };
  struct FourBits;
  using Rows = std::function<at::Tensor(std::int64_t first, std::int64_t rows)>;  // [rows, columns] float32
  bool is_coded(const std::string& name) const;
  std::string fp8_fault(const std::string& name) const;
  std::string four_bit_fault(const std::string& name) const;
  FourBits four_bits(const std::string& name) const;
  Rows fp8_rows(const std::string& name) const;
  Rows four_bit_rows(const std::string& name) const;

  Method method_ = Method::none;
  std::vector<std::int64_t> block_;  ///< FP8's; empty: a scale for each matrix
  const SafetensorsFolder* tensors_ = nullptr;
};

}  // namespace hf
CAPSTAN_END_NAMESPACE
