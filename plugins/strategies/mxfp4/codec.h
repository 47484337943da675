#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/nn/codec.h>

#include <string>
#include <vector>

#include "numbers.h"

namespace mxfp4 {

/// What an extent's bytes are, in this order, each from a multiple of 16 bytes on; views of them.
struct Parts {
  at::Tensor codes;   ///< [matrices, elements / 2] uint8: the first of two elements in the lower bits
  at::Tensor scales;  ///< [matrices, elements / 32] uint8
};
Parts parts_of(const capstan::nn::Codec::Extent& extent, const at::Tensor& bytes);

/// MXFP4 (OCP Microscaling Formats 1.0): an element is numbers[code] · 2^(scale - 127), the scale being that of 32
/// neighbours in a row. Reads the codes of gpt-oss' published experts as they are; others' values are rounded to the
/// nearest number, to an even code where two are as near, with the scale by which the largest of the 32 is below 8.
class Codec : public capstan::nn::Codec {
 public:
  explicit Codec(std::size_t stacked) : stacked_(stacked) {}
  Capabilities capabilities() const override { return {.packs = true, .has_files = true}; }
  std::string name() const override { return "mxfp4"; }
  std::string fix() const override { return "remove [strategy.mxfp4]"; }
  std::size_t stacked() const override { return stacked_; }
  std::int64_t grain() const override { return group; }
  std::string refusal(const Extent& extent) const override;
  std::int64_t bytes(const Extent& extent) const override;
  void encode(const Extent& extent, const at::Tensor& values, const at::Tensor& bytes, const Sum& sum) const override;
  /// On CPU the plain definition, on CUDA a kernel with equal results.
  void decode(const Extent& extent, const at::Tensor& bytes, const at::Tensor& values) const override;

  std::string form() const override { return "mxfp4"; }
  void read_matrices(const Extent& extent, std::int64_t first, const std::vector<capstan::nn::CodedMatrix>& matrices,
                     const at::Tensor& bytes) const override;

 private:
  std::size_t stacked_;
};

}  // namespace mxfp4
