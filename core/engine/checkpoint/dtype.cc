#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/checkpoint/safetensors.h>

#include <algorithm>
#include <array>

namespace capstan::checkpoint {
namespace {

using c10::ScalarType;

// These are in the order of Dtype.
constexpr std::array<ScalarType, 16> torch_dtypes{
    ScalarType::Bool,          ScalarType::Byte,           ScalarType::Char,  ScalarType::Float8_e5m2,
    ScalarType::Float8_e4m3fn, ScalarType::Float8_e8m0fnu, ScalarType::Short, ScalarType::UInt16,
    ScalarType::Half,          ScalarType::BFloat16,       ScalarType::Int,   ScalarType::UInt32,
    ScalarType::Float,         ScalarType::Double,         ScalarType::Long,  ScalarType::UInt64};

}  // namespace

ScalarType torch_dtype(Dtype dtype) { return torch_dtypes.at(static_cast<std::size_t>(dtype)); }

Dtype dtype_of(ScalarType dtype) {
  const auto* const found = std::find(torch_dtypes.begin(), torch_dtypes.end(), dtype);
  if (found != torch_dtypes.end()) return static_cast<Dtype>(found - torch_dtypes.begin());
  throw Error(cat("safetensors has no dtype ", c10::toString(dtype)));
}

}  // namespace capstan::checkpoint
