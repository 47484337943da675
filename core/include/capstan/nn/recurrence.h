#pragma once
#include <capstan/base/export.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// Also a base of a layer of a model's own kind whose heads each carry a state from token to token. It says so to
/// strategies: ranks that share layers may share its heads, as its Linears and its own weights declare (Use::split:
/// along dimension 0, by heads), and ranks cannot share the columns of rows.
class Recurrence {
 public:
  virtual ~Recurrence();
  /// How many parts of equal size it can be cut into: the whole layer's heads, or groups of them.
  virtual std::int64_t heads() const = 0;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
