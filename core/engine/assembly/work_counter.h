#pragma once
#include <ATen/core/ivalue.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <capstan/base/export.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace c10 {
class OperatorHandle;
}

CAPSTAN_BEGIN_NAMESPACE
namespace meta {

/// A matrix product [rows, depth] x [depth, columns].
struct Product {
  std::int64_t rows = 0, columns = 0, depth = 0;
  std::int64_t bytes = 0;   ///< bytes that it reads and writes
  bool grouped = false;     ///< each expert multiplies its own tokens, all in one launch
  bool eight_bits = false;  ///< its operands are
  bool in_blocks = false;   ///< … with a scale for each block of them
  auto operator<=>(const Product&) const = default;
  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth);
  }
};

/// Fused attention of `heads` heads (batch x heads).
struct AttentionShape {
  std::int64_t heads = 0, queries = 0, keys = 0, width = 0;
  bool causal = false;
  bool segments = false;  ///< by LibTorch's own flash attention: packed samples, and a ring's tiles
  auto operator<=>(const AttentionShape&) const = default;
  /// FLOP of the two forward products; a causal mask leaves half of them.
  double flops() const {
    const auto all = 4.0 * static_cast<double>(heads) * static_cast<double>(queries) * static_cast<double>(keys) *
                     static_cast<double>(width);
    return causal ? all / 2 : all;
  }
};

/// What operators make a GPU do, in counts; with a GPU's rates they become time.
struct Work {
  std::map<Product, std::int64_t> products;
  std::map<AttentionShape, std::int64_t> attention;           ///< forward passes
  std::map<AttentionShape, std::int64_t> attention_backward;  ///< backward passes whose gradient is wanted
  double bytes = 0;                                           ///< bytes that all other operators read and write
  std::int64_t kernels = 0;                                   ///< operators that launch something
};

/// Counts the work of the operators that this thread calls on the meta device during its lifetime; one at a time a
/// thread. An operator that is made of others counts as these.
class WorkCounter {
 public:
  WorkCounter();
  ~WorkCounter();
  WorkCounter(const WorkCounter&) = delete;
  WorkCounter& operator=(const WorkCounter&) = delete;
  /// What was counted so far, which may be taken away.
  Work& work() const;
  /// Fused attention, which is an operator of autograd: its shape rule tells of it.
  static void attend(const AttentionShape& shape, bool is_backward);
  /// The dispatcher calls it for each operator.
  static void watch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, std::vector<c10::IValue>* stack);

 private:
  class Counter;
  std::unique_ptr<Counter> counter_;
  c10::impl::IncludeDispatchKeyGuard switched_on_;
};

}  // namespace meta
CAPSTAN_END_NAMESPACE
