#include "checkpoint/dtype.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <array>

namespace capstan::checkpoint {
namespace {

using c10::ScalarType;

struct Entry {
  const char* name;
  ScalarType dtype;
};

// In safetensors' own order (the enumeration of its reference implementation), which its writer sorts by.
constexpr std::array<Entry, 15> table{{{"BOOL", ScalarType::Bool},
                                       {"U8", ScalarType::Byte},
                                       {"I8", ScalarType::Char},
                                       {"F8_E5M2", ScalarType::Float8_e5m2},
                                       {"F8_E4M3", ScalarType::Float8_e4m3fn},
                                       {"I16", ScalarType::Short},
                                       {"U16", ScalarType::UInt16},
                                       {"F16", ScalarType::Half},
                                       {"BF16", ScalarType::BFloat16},
                                       {"I32", ScalarType::Int},
                                       {"U32", ScalarType::UInt32},
                                       {"F32", ScalarType::Float},
                                       {"F64", ScalarType::Double},
                                       {"I64", ScalarType::Long},
                                       {"U64", ScalarType::UInt64}}};

}  // namespace

std::optional<ScalarType> dtype_of(const std::string& name) {
  for (const auto& entry : table) {
    if (name == entry.name) return entry.dtype;
  }
  return {};
}

int dtype_rank(ScalarType dtype) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].dtype == dtype) return static_cast<int>(i);
  }
  throw Error(cat("safetensors has no dtype ", c10::toString(dtype)));
}

std::string dtype_name(ScalarType dtype) { return table[static_cast<std::size_t>(dtype_rank(dtype))].name; }

std::string dtype_names() {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  return join(names);
}

}  // namespace capstan::checkpoint
