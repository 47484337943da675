#include "record/dtype.h"

#include <capstan/base/text.h>

#include <array>
#include <vector>

namespace capstan::checkpoint {
namespace {

struct Entry {
  const char* name;
  std::int64_t bytes;
};

// In the order of Dtype.
constexpr std::array<Entry, 16> dtypes{{{"BOOL", 1},
                                        {"U8", 1},
                                        {"I8", 1},
                                        {"F8_E5M2", 1},
                                        {"F8_E4M3", 1},
                                        {"F8_E8M0", 1},
                                        {"I16", 2},
                                        {"U16", 2},
                                        {"F16", 2},
                                        {"BF16", 2},
                                        {"I32", 4},
                                        {"U32", 4},
                                        {"F32", 4},
                                        {"F64", 8},
                                        {"I64", 8},
                                        {"U64", 8}}};

const Entry& entry_of(Dtype dtype) { return dtypes.at(static_cast<std::size_t>(dtype)); }

}  // namespace

std::string dtype_name(Dtype dtype) { return entry_of(dtype).name; }
std::int64_t dtype_bytes(Dtype dtype) { return entry_of(dtype).bytes; }

std::optional<Dtype> dtype_named(const std::string& name) {
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    if (name == dtypes[i].name) return static_cast<Dtype>(i);
  }
  return {};
}

std::string dtype_names() {
  std::vector<std::string> names;
  for (const auto& entry : dtypes) names.emplace_back(entry.name);
  return join(names);
}

std::optional<std::int64_t> bytes_of(const layout::Shape& shape, Dtype dtype) {
  auto bytes = dtype_bytes(dtype);
  for (const auto size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return {};
  }
  return bytes;
}

}  // namespace capstan::checkpoint
