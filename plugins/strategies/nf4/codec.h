#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/nn/codec.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "numbers.h"
#include "places.h"

namespace nf4 {

/// bitsandbytes' tensors of four bits, those of its other maps too, which are refused by name.
capstan::nn::PackedForm bnb_form();

/// [256] float32 on CPU, ascending: the numbers of a magnitude's 8 bits, bitsandbytes' create_dynamic_map().
at::Tensor magnitude_map();

/// What an extent's bytes are, in this order, each from a multiple of 16 bytes on; views of them.
struct Parts {
  at::Tensor map;         ///< [256] float32
  at::Tensor codes;       ///< [matrices, elements / 2] uint8: the first of two elements in the higher bits
  at::Tensor magnitudes;  ///< [matrices, elements / 64] uint8: places in the map
  at::Tensor nested;      ///< [matrices, groups of the extent's span] float32: the largest distance from the offset
  at::Tensor offsets;     ///< [matrices] float32: the mean magnitude
};
Parts parts_of(const capstan::nn::Codec::Extent& extent, const at::Tensor& bytes);

/// Where an extent's elements are in its span.
InWhole in_span(const capstan::nn::Codec::Extent& extent);

/// NF4 with magnitudes in 8 bits ("double quantisation"), as bitsandbytes keeps linears: an element is
/// numbers[code] · (map[magnitude] · nested + offset), each operation rounded to float32, and then to the weight's
/// dtype. Its files are bitsandbytes' own (bnb.cc).
class Codec : public capstan::nn::Codec {
 public:
  explicit Codec(std::size_t stacked) : stacked_(stacked) {}
  Capabilities capabilities() const override { return {.packs = true, .has_files = true}; }
  std::string name() const override { return "nf4"; }
  std::string fix() const override { return "leave its layer out of strategy.nf4.targets"; }
  std::size_t stacked() const override { return stacked_; }
  std::int64_t grain() const override { return shared; }
  std::string refusal(const Extent& extent) const override;
  std::int64_t bytes(const Extent& extent) const override;
  void encode(const Extent& extent, const at::Tensor& values, const at::Tensor& bytes, const Sum& sum) const override;
  /// On CPU the plain definition, on CUDA a kernel with equal results.
  void decode(const Extent& extent, const at::Tensor& bytes, const at::Tensor& values) const override;

  std::string form() const override { return bnb_form().name; }
  std::vector<FilePart> file_parts(const capstan::layout::Shape& shape) const override;
  void check_matrix(const capstan::nn::CodedMatrix& matrix) const override;
  void read_matrices(const Extent& extent, std::int64_t first, const std::vector<capstan::nn::CodedMatrix>& matrices,
                     const at::Tensor& bytes) const override;
  std::map<std::string, at::Tensor> write_matrix(const capstan::layout::Shape& shape, const at::Tensor& bytes,
                                                 c10::ScalarType dtype) const override;
  std::string files_config(const std::vector<std::string>& plain, c10::ScalarType dtype) const override;

 private:
  std::size_t stacked_;
};

}  // namespace nf4
