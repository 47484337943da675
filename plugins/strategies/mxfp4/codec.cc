#include "codec.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <cmath>

namespace mxfp4 {

using namespace capstan;

namespace {

constexpr std::int64_t at_once = std::int64_t{1} << 24;  // elements whose float32 values are in memory together

std::int64_t whole_16(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

// Between two numbers; one that is as near to both goes to the even code.
at::Tensor middles(c10::Device device) {
  const auto below = [](float x) { return std::nextafter(x, 0.0F); };
  return at::tensor({0.25F, below(0.75F), 1.25F, below(1.75F), 2.5F, below(3.5F), 5.0F}).to(device);
}

// Rows of 32 -> codes [rows, 16] and scales [rows].
void encode_groups(const at::Tensor& rows, const at::Tensor& codes, const at::Tensor& scales) {
  const auto largest = rows.abs().amax(1);
  // frexp's exponent is one above the logarithm; the largest of 32 becomes 4 to 8.
  constexpr int above = 3;
  const auto exponents = std::get<1>(at::frexp(largest)).sub(above).clamp(-bias, bias).masked_fill(largest.eq(0), -bias);
  scales.copy_(exponents.add(bias));
  // In two steps: 2^127 and 2^-127 have no inverse that is normal.
  const auto half = exponents.floor_divide(2), rest = exponents - half;
  const auto scaled = at::ldexp(at::ldexp(rows, -half.unsqueeze(1)), -rest.unsqueeze(1));
  const auto magnitude = at::bucketize(scaled.abs(), middles(rows.device()), /*out_int32=*/true);
  const auto each = (magnitude + scaled.lt(0).mul(8)).view({-1, group / 2, 2});
  codes.copy_(each.select(2, 0).add(each.select(2, 1).mul(16)));
}

template <class T>
void decode_matrix(const Parts& parts, std::int64_t matrix, T* out) {
  const auto* codes = parts.codes[matrix].const_data_ptr<std::uint8_t>();
  const auto* scales = parts.scales[matrix].const_data_ptr<std::uint8_t>();
  for (std::int64_t g = 0; g < parts.scales.size(1); ++g) {
    const float scale = std::ldexp(1.0F, static_cast<int>(scales[g]) - bias);
    for (std::int64_t i = 0; i < group / 2; ++i) {
      const auto two = *codes++;
      *out++ = static_cast<T>(numbers[two & 15U] * scale);
      *out++ = static_cast<T>(numbers[two >> 4U] * scale);
    }
  }
}

const at::Tensor& part_of(const nn::CodedMatrix& matrix, const std::string& end) {
  const auto found = matrix.parts.find(end);
  CAPSTAN_ASSERT(found != matrix.parts.end());
  return found->second;
}

}  // namespace

Parts parts_of(const nn::Codec::Extent& extent, const at::Tensor& bytes) {
  const auto numel = extent.numel();
  return {bytes.narrow(0, 0, numel / 2).view({extent.matrices, extent.elements / 2}),
          bytes.narrow(0, whole_16(numel / 2), numel / group).view({extent.matrices, extent.elements / group})};
}

std::string Codec::refusal(const Extent& extent) const {
  if (extent.elements % group != 0)
    return cat("a matrix on this rank has ", thousands(extent.elements), " elements, which is no multiple of ", group);
  if (extent.columns % group == 0 && extent.of_columns % group == 0) return {};
  return cat("a rank has ", thousands(extent.columns), " of its ", thousands(extent.of_columns),
             " columns, which is no multiple of ", group, ": what shares a scale would be divided");
}

std::int64_t Codec::bytes(const Extent& extent) const {
  return whole_16(extent.numel() / 2) + whole_16(extent.numel() / group);
}

void Codec::encode(const Extent& extent, const at::Tensor& values, const at::Tensor& bytes, const Sum&) const {
  bytes.zero_();
  const auto parts = parts_of(extent, bytes);
  const auto all = values.view({-1, group}), codes = parts.codes.view({-1, group / 2}), scales = parts.scales.view({-1});
  for (std::int64_t begin = 0; begin < all.size(0); begin += at_once / group) {
    const auto count = std::min(at_once / group, all.size(0) - begin);
    encode_groups(all.narrow(0, begin, count).to(at::kFloat), codes.narrow(0, begin, count),
                  scales.narrow(0, begin, count));
  }
}

void Codec::decode(const Extent& extent, const at::Tensor& bytes, const at::Tensor& values) const {
  CAPSTAN_ASSERT(values.dim() == 2 && values.stride(1) == 1 && values.size(1) == extent.elements);
  const auto parts = parts_of(extent, bytes);
  if (values.is_cuda()) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("capstan::mxfp4_decode", "")
                               .typed<void(const at::Tensor&, const at::Tensor&, const at::Tensor&)>();
    return op.call(values, parts.codes, parts.scales);
  }
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, values.scalar_type(), "mxfp4 decode", [&] {
    for (std::int64_t m = 0; m < values.size(0); ++m) decode_matrix(parts, m, values[m].data_ptr<scalar_t>());
  });
}

void Codec::read_matrices(const Extent& extent, std::int64_t first, const std::vector<nn::CodedMatrix>& matrices,
                          const at::Tensor& bytes) const {
  CAPSTAN_ASSERT(matrices.size() == static_cast<std::size_t>(extent.matrices));
  bytes.zero_();
  const auto to = parts_of(extent, bytes);
  const auto span = extent.span() / group, columns = extent.columns == 0 ? span : extent.columns / group;
  const auto of_columns = extent.columns == 0 ? span : extent.of_columns / group;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto m = static_cast<std::int64_t>(i);
    // The extent's columns of its rows, in groups with `width` bytes each.
    const auto take = [&](const std::string& end, std::int64_t width, const at::Tensor& out) {
      const auto rows = part_of(matrices[i], end).reshape({-1, width}).narrow(0, first / group, span);
      const auto part =
          rows.reshape({-1, of_columns, width}).narrow(1, extent.columns == 0 ? 0 : extent.first_column / group, columns);
      out.view(part.sizes()).copy_(part);
    };
    take("_blocks", group / 2, to.codes[m]);
    take("_scales", 1, to.scales[m]);
  }
}

}  // namespace mxfp4
