#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/layout/file_tensor.h>
#include <capstan/nn/codec.h>

#include <optional>
#include <string>
#include <vector>

#include "hf/safetensors_folder.h"

CAPSTAN_BEGIN_NAMESPACE
namespace hf {

/// Codec::form() of what keeps these codes.
inline constexpr const char* mxfp4_form = "mxfp4";

/// Experts' matrices in MXFP4 (OCP Microscaling Formats 1.0), as gpt-oss is published: a folder has, in place of the
/// tensor NAME [experts, in, out],
///
///     NAME_blocks   U8 [experts, out, in / 32, 16]   codes of two e2m1 numbers, the first in the lower bits
///     NAME_scales   U8 or F8_E8M0 [experts, out, in / 32]   the exponent of 2 that 32 numbers share, plus 127
///
/// They are decoded as they are read. Each number is exact in float32 and in bfloat16.
class Mxfp4Tensor {
 public:
  /// Nothing where the folder does not have them under this name.
  static std::optional<Mxfp4Tensor> find(const SafetensorsFolder& folder, const std::string& name);

  const std::string& name() const { return name_; }
  std::vector<std::string> parts() const { return {name_ + "_blocks", name_ + "_scales"}; }
  /// Why the two cannot stand for a tensor of this shape; empty: they can.
  std::string fault(const layout::Shape& shape) const;
  /// Fills `out` with a box of the record; `place` says how the tensor [experts, in, out] is made of it.
  void read(const layout::FileTensor& place, const layout::Shape& record, const layout::Box& box,
            const at::Tensor& out) const;
  /// The codes of each matrix [rows, columns] that a box of the record has something of, whose first `stacked`
  /// dimensions count them; parts "_blocks" [rows, columns / 32, 16] and "_scales" [rows, columns / 32].
  std::vector<nn::CodedMatrix> matrices(const layout::FileTensor& place, const layout::Shape& record,
                                        const layout::Box& box, std::size_t stacked) const;

 private:
  std::string name_;
  const checkpoint::SafetensorsFile* blocks_ = nullptr;
  const checkpoint::SafetensorsFile* scales_ = nullptr;
};

}  // namespace hf
CAPSTAN_END_NAMESPACE
