#include "blocks.h"

#include <ATen/Parallel.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <type_traits>

namespace adam8bit {
namespace {

constexpr std::int64_t blocks_a_thread = 256;  // at least

// Calls body(begin, end) for parts of [0, count). at::parallel_for is a plain loop in files without OpenMP.
template <class Body>
void in_parallel(std::int64_t count, const Body& body) {
  const auto most = std::max<std::int64_t>(1, count / blocks_a_thread);
  const auto threads = std::min<std::int64_t>(at::get_num_threads(), most);
  std::vector<std::thread> others;
  for (std::int64_t i = 1; i < threads; ++i)
    others.emplace_back([&, i] { body(count * i / threads, count * (i + 1) / threads); });
  body(0, count / threads);
  for (auto& other : others) other.join();
}

// body(T*) with the tensor's first element, as the type that it has.
template <class Body>
void with_elements(const at::Tensor& tensor, const Body& body) {
  void* data = tensor.data_ptr();
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return body(static_cast<double*>(data));
    case at::kFloat:
      return body(static_cast<float*>(data));
    case at::kBFloat16:
      return body(static_cast<c10::BFloat16*>(data));
    default:
      TORCH_CHECK(tensor.scalar_type() == at::kHalf, "adam8bit updates float types: ", tensor.scalar_type());
      return body(static_cast<c10::Half*>(data));
  }
}

// As unsigned integers, so that what is not a number counts as the largest: a GPU's maximum does it so.
float largest(const float* values, std::int64_t n) {
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < n; ++i) most = std::max(most, bits_of(magnitude(values[i])));
  return std::bit_cast<float>(most);
}

void decode_block(const float (&values)[code_count], const std::uint8_t* in, float scale, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = times(values[in[i]], scale);
}

void encode_signed(const float* values, float scale, std::int64_t n, std::uint8_t* out) {
  const auto by = inverse_of(scale);
  for (std::int64_t i = 0; i < n; ++i)
    out[i] = static_cast<std::uint8_t>(signed_code(tables, values[i], part_of(by, values[i])));
}

void encode_unsigned(const float* values, float scale, std::int64_t n, std::uint8_t* out) {
  const auto by = inverse_of(scale);
  for (std::int64_t i = 0; i < n; ++i)
    out[i] = static_cast<std::uint8_t>(unsigned_code(tables, part_of(by, values[i])));
}

// Block `i` of a part, whose first element is `begin`.
void update_block(const Part& part, const Numbers& by, std::int64_t i, std::int64_t n) {
  const auto begin = i * block;
  const auto& at = part.moments;
  float grads[block], averages[block], squares[block];
  with_elements(part.grad, [&](const auto* from) {
    for (std::int64_t j = 0; j < n; ++j) grads[j] = static_cast<float>(from[begin + j]);
  });
  decode_block(tables.signed_value, at.codes + begin, at.scales[i], n, averages);
  decode_block(tables.without.value, at.square_codes + begin, at.square_scales[i], n, squares);
  for (std::int64_t j = 0; j < n; ++j) accumulate(by, grads[j], averages[j], squares[j]);
  with_elements(part.master, [&](auto* masters) {
    using Master = std::remove_pointer_t<decltype(masters)>;
    using Wide = std::conditional_t<std::is_same_v<Master, double>, double, float>;
    for (std::int64_t j = 0; j < n; ++j) {
      auto& master = masters[begin + j];
      master = static_cast<Master>(stepped<Wide>(by, static_cast<Wide>(master), averages[j], squares[j]));
    }
    if (!part.copy.defined()) return;
    with_elements(part.copy, [&](auto* copies) {
      using Copy = std::remove_pointer_t<decltype(copies)>;
      for (std::int64_t j = 0; j < n; ++j) copies[begin + j] = static_cast<Copy>(static_cast<Wide>(masters[begin + j]));
    });
  });
  at.scales[i] = largest(averages, n);
  at.square_scales[i] = largest(squares, n);
  encode_signed(averages, at.scales[i], n, at.codes + begin);
  encode_unsigned(squares, at.square_scales[i], n, at.square_codes + begin);
}

bool comes_back(const float* values, const std::uint8_t* coded, float scale, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (times(tables.signed_value[coded[i]], scale) != values[i]) return false;
  }
  return true;
}

// The scale of values that may have been decoded. Where the largest was negative, it is not a decoded magnitude: no
// code is -1, and the first is the nearest to it. So scales are tried with which that code is the largest of these.
float scale_of(const float* values, float most, std::int64_t n, std::uint8_t* room) {
  constexpr int tries = 5;
  constexpr std::uint32_t before = 2;
  const float guess = most / tables.with_sign.value[largest_negative];
  if (most < std::numeric_limits<float>::min() || !(guess < infinity)) return most;
  for (int i = -1; i < tries; ++i) {
    const float scale = i < 0 ? most : std::bit_cast<float>(bits_of(guess) - before + static_cast<std::uint32_t>(i));
    encode_signed(values, scale, n, room);
    if (comes_back(values, room, scale, n)) return scale;
  }
  return most;
}

template <class Body>
void each_block(std::int64_t n, const Body& body) {
  in_parallel(blocks_of(n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i, i * block, std::min<std::int64_t>(block, n - i * block));
  });
}

}  // namespace

Moments moments_of(const at::Tensor& codes, const at::Tensor& scales, const at::Tensor& square_codes,
                   const at::Tensor& square_scales) {
  return {codes.data_ptr<std::uint8_t>(), scales.data_ptr<float>(), square_codes.data_ptr<std::uint8_t>(),
          square_scales.data_ptr<float>()};
}

void update(const Part& part, const Numbers& by) {
  each_block(part.master.numel(), [&](std::int64_t i, std::int64_t, std::int64_t n) { update_block(part, by, i, n); });
}

void decode(const Moments& moments, std::int64_t n, float* average, float* square) {
  each_block(n, [&](std::int64_t i, std::int64_t begin, std::int64_t count) {
    decode_block(tables.signed_value, moments.codes + begin, moments.scales[i], count, average + begin);
    decode_block(tables.without.value, moments.square_codes + begin, moments.square_scales[i], count, square + begin);
  });
}

void encode(const Moments& moments, std::int64_t n, const float* average, const float* square) {
  each_block(n, [&](std::int64_t i, std::int64_t begin, std::int64_t count) {
    const float scale = scale_of(average + begin, largest(average + begin, count), count, moments.codes + begin);
    const float most_square = largest(square + begin, count);
    moments.scales[i] = scale;
    moments.square_scales[i] = most_square;
    encode_signed(average + begin, scale, count, moments.codes + begin);
    encode_unsigned(square + begin, most_square, count, moments.square_codes + begin);
  });
}

}  // namespace adam8bit
