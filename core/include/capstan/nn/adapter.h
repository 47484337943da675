#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/weight.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// Two thin matrices next to a frozen one: y = x W^T + scale · (x A^T) B^T (Hu et al. 2021, equation 3). What a
/// strategy adds to a unit in structure(), and what placement, export and the model summary read; the strategy itself
/// fills the layer's adapter port.
struct Adapter {
  std::string module;  ///< for messages: "blocks.0.linear_qkv"
  std::string table;   ///< for messages: the configuration's table whose options made it
  WeightPtr base;
  std::vector<std::size_t> parts;  ///< indices of base's records that it adapts, ascending
  WeightPtr down;                  ///< A: one record [stacked …, rank, in]
  WeightPtr up;                    ///< B: by part the base record's shape with rank as the last dimension
  std::size_t stacked = 0;         ///< leading dimensions that count matrices (experts): A, B and base all have them
  std::int64_t rank = 0;
  double alpha = 0;
  bool rank_stabilised = false;  ///< divides by the rank's root (Kalajdzievski 2023), else by the rank
  double dropout = 0;            ///< on x, before A

  /// alpha / rank, or alpha / sqrt(rank).
  double scale() const;
  bool covers_base() const { return parts.size() == base->records().size(); }
};

/// Lays A and B as their base lies by now. Where its output features are cut, B is cut alike and A's gradient is a part
/// of the sum; where its input features are cut, A is cut alike and B's gradient is a part. Cuts that give a rank some
/// of the matrices hold for both.
void place_like_base(const Adapter& adapter);

}  // namespace nn
CAPSTAN_END_NAMESPACE
