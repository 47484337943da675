#include "codec.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace nf4 {

using namespace capstan;

namespace {

constexpr std::int64_t at_once = std::int64_t{1} << 24;  // elements whose float32 values are in memory together
static_assert(at_once % shared == 0);

at::Tensor constants(at::ArrayRef<float> list, c10::Device device) { return at::tensor(list).to(device); }

// 1 / x, and 0 for 0: what is all zeros has the code of 0.
at::Tensor inverse_of(const at::Tensor& x) { return x.reciprocal().masked_fill_(x == 0, 0); }

// Encodes rows of 64: returns their largest magnitudes [rows], and writes codes to `out` [rows * 32].
at::Tensor encode_blocks(const at::Tensor& rows, const at::Tensor& out) {
  auto magnitudes = rows.abs().amax(1);
  const auto codes =
      at::bucketize(rows * inverse_of(magnitudes).unsqueeze(1), constants(borders, rows.device()), /*out_int32=*/true)
          .view({-1, 2});
  out.copy_(codes.select(1, 0).mul(16).add_(codes.select(1, 1)));
  return magnitudes;
}

// The mean of each matrix's magnitudes. They are added up as multiples of 2^-24, so the sum is exact in any order and
// on any number of ranks.
at::Tensor mean_magnitudes(const at::Tensor& magnitudes, bool is_part, const nn::Codec::Sum& sum) {
  const double scale = std::ldexp(1, 24);
  auto sums = magnitudes.to(at::kDouble).mul_(scale).round_().sum(1);
  sums = at::cat({sums, at::full({1}, magnitudes.size(1), sums.options())});
  if (is_part) sum.all(sums);
  const auto last = sums.size(0) - 1;
  return (sums.narrow(0, 0, last) / sums.narrow(0, last, 1) / scale).to(at::kFloat);
}

// The groups of the span that blocks belong to: [blocks] int64.
at::Tensor groups_in(const nn::Codec::Extent& extent, c10::Device device) {
  const auto [span, first, run, stride] = in_span(extent);
  const auto blocks = at::arange(extent.elements / block, at::TensorOptions(at::kLong).device(device));
  const auto runs = run / block;
  return blocks.div(runs, "floor")
      .mul_(stride / block)
      .add_(blocks.remainder(runs))
      .add_(first / block)
      .div_(group, "floor");
}

// The largest distances from the mean, by group. Ranks that have other columns of the same rows have other blocks of a
// group: each puts what it found in a place of its own, and the places are added up, once for each holder of a part.
at::Tensor largest_distances(const nn::Codec::Extent& extent, const at::Tensor& distances, const at::Tensor& groups,
                             const nn::Codec::Sum& sum) {
  const auto matrices = distances.size(0), count = groups_of(extent.span());
  if (extent.columns == 0) {
    const auto padded = at::constant_pad_nd(distances, {0, count * group - distances.size(1)});
    return padded.view({matrices, count, group}).amax(-1);
  }
  const auto mine = at::zeros({matrices, count}, distances.options())
                        .scatter_reduce_(1, groups.expand_as(distances), distances, "amax");
  const auto place = extent.first_column / extent.columns;
  const auto all =
      at::zeros({extent.of_columns / extent.columns, matrices * count + 1}, distances.options().dtype(at::kDouble));
  all[place].narrow(0, 0, matrices * count).copy_(mine.view({-1}));
  all[place][matrices * count] = 1;
  sum.columns(all);
  const auto holders = all.narrow(1, matrices * count, 1);
  return (all.narrow(1, 0, matrices * count) / holders).amax(0).to(at::kFloat).view({matrices, count});
}

void encode_magnitudes(const nn::Codec::Extent& extent, const at::Tensor& magnitudes, const Parts& parts,
                       const nn::Codec::Sum& sum) {
  const auto from_mean = magnitudes - parts.offsets.unsqueeze(1);
  const auto groups = groups_in(extent, magnitudes.device()).unsqueeze(0);
  parts.nested.copy_(largest_distances(extent, from_mean.abs(), groups, sum));
  const auto middles = (parts.map.narrow(0, 0, map_size - 1) + parts.map.narrow(0, 1, map_size - 1)).mul_(0.5);
  const auto inverse = inverse_of(parts.nested).gather(1, groups.expand_as(from_mean));
  parts.magnitudes.copy_(at::bucketize(from_mean * inverse, middles, /*out_int32=*/true));
}

template <class T>
void decode_matrix(const Parts& parts, const InWhole& in_whole, std::int64_t matrix, T* out) {
  const auto* codes = parts.codes[matrix].const_data_ptr<std::uint8_t>();
  const auto* magnitudes = parts.magnitudes[matrix].const_data_ptr<std::uint8_t>();
  const auto* nested = parts.nested[matrix].const_data_ptr<float>();
  const auto* map = parts.map.const_data_ptr<float>();
  const float offset = parts.offsets.const_data_ptr<float>()[matrix];
  for (std::int64_t b = 0; b < parts.magnitudes.size(1); ++b) {
    const float distance = map[magnitudes[b]] * nested[place_in(in_whole, b * block) / shared];
    const float magnitude = distance + offset;
    for (std::int64_t i = b * block; i < (b + 1) * block; ++i) {
      const auto code = i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
      out[i] = static_cast<T>(numbers[static_cast<std::size_t>(code)] * magnitude);
    }
  }
}

void decode_on_cpu(const Parts& parts, const InWhole& in_whole, const at::Tensor& values) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, values.scalar_type(), "nf4 decode", [&] {
    for (std::int64_t m = 0; m < values.size(0); ++m) decode_matrix(parts, in_whole, m, values[m].data_ptr<scalar_t>());
  });
}

}  // namespace

// 7 bits for a magnitude and its sign: a power of ten, and the more fractions of it the higher it is (Dettmers et al.
// 2022, "8-bit optimizers via block-wise quantization", section 1.3). In ATen's own steps, for the same bits.
at::Tensor magnitude_map() {
  constexpr int powers = 7;
  std::vector<float> all{0, 1};
  for (int i = 0; i < powers; ++i) {
    const auto edges = at::linspace(0.1, 1, (1 << i) + 1, at::kFloat);
    const auto count = edges.size(0) - 1;
    const at::Tensor means =
        (edges.narrow(0, 0, count) + edges.narrow(0, 1, count)) / 2.0 * std::pow(10.0, i + 1 - powers);
    for (std::int64_t j = 0; j < count; ++j) {
      const auto mean = means[j].item<float>();
      all.insert(all.end(), {mean, -mean});
    }
  }
  CAPSTAN_ASSERT(all.size() == static_cast<std::size_t>(map_size));
  std::sort(all.begin(), all.end());
  return at::tensor(all);
}

Parts parts_of(const nn::Codec::Extent& extent, const at::Tensor& bytes) {
  const auto matrices = extent.matrices, elements = extent.elements;
  const auto at = places_of(matrices, elements, extent.span());
  const auto part = [&](std::int64_t begin, std::int64_t columns, at::ScalarType type) {
    const auto size = matrices * columns * static_cast<std::int64_t>(c10::elementSize(type));
    return bytes.narrow(0, begin, size).view(type).view({matrices, columns});
  };
  constexpr std::int64_t map_bytes = map_size * static_cast<std::int64_t>(sizeof(float));
  return {bytes.narrow(0, 0, map_bytes).view(at::kFloat), part(at.codes, elements / 2, at::kByte),
          part(at.magnitudes, elements / block, at::kByte), part(at.nested, groups_of(extent.span()), at::kFloat),
          part(at.offsets, 1, at::kFloat).view({matrices})};
}

InWhole in_span(const nn::Codec::Extent& extent) {
  if (extent.columns == 0) return {extent.elements, 0, extent.elements, extent.elements};
  return {extent.span(), extent.first_column, extent.columns, extent.of_columns};
}

std::string Codec::refusal(const Extent& extent) const {
  if (extent.elements % block != 0)
    return cat("a matrix on this rank has ", thousands(extent.elements), " elements, which is no multiple of ", block);
  if (extent.columns % block != 0 || extent.of_columns % block != 0) {
    return cat("a rank has ", thousands(extent.columns), " of its ", thousands(extent.of_columns),
               " columns, which is no multiple of ", block, ": what shares a magnitude would be divided");
  }
  if (extent.is_part && extent.span() % shared != 0) {
    return cat("a rank's rows of a matrix have ", thousands(extent.span()), " elements, which is no multiple of ",
               thousands(shared), ": what shares a magnitude would be divided");
  }
  return {};
}

std::int64_t Codec::bytes(const Extent& extent) const {
  return places_of(extent.matrices, extent.elements, extent.span()).end;
}

void Codec::encode(const Extent& extent, const at::Tensor& values, const at::Tensor& bytes, const Sum& sum) const {
  bytes.zero_();
  const auto parts = parts_of(extent, bytes);
  parts.map.copy_(magnitude_map());
  const auto all = values.view({-1}), codes = parts.codes.view({-1});
  std::vector<at::Tensor> magnitudes;
  for (std::int64_t begin = 0; begin < all.numel(); begin += at_once) {
    const auto count = std::min(at_once, all.numel() - begin);
    const auto rows = all.narrow(0, begin, count).to(at::kFloat).view({-1, block});
    magnitudes.push_back(encode_blocks(rows, codes.narrow(0, begin / 2, count / 2)));
  }
  if (magnitudes.empty()) magnitudes.push_back(at::empty({0}, values.options().dtype(at::kFloat)));
  const auto of_blocks = at::cat(magnitudes).view({extent.matrices, extent.elements / block});
  parts.offsets.copy_(mean_magnitudes(of_blocks, extent.is_part, sum));
  if (extent.elements == 0) return;
  encode_magnitudes(extent, of_blocks, parts, sum);
}

void Codec::decode(const Extent& extent, const at::Tensor& bytes, const at::Tensor& values) const {
  CAPSTAN_ASSERT(values.dim() == 2 && values.stride(1) == 1 && values.size(1) == extent.elements);
  const auto in_whole = in_span(extent);
  if (!values.is_cuda()) return decode_on_cpu(parts_of(extent, bytes), in_whole, values);
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("capstan::nf4_decode", "")
          .typed<void(const at::Tensor&, const at::Tensor&, std::int64_t, std::int64_t, std::int64_t)>();
  op.call(values, bytes, in_whole.run, in_whole.stride, in_whole.first);
}

}  // namespace nf4
