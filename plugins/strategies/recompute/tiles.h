#pragma once
#include <capstan/nn/model.h>
#include <capstan/strategy/keep_input.h>

#include <cstdint>

namespace recompute {

/// The ranks that may share the columns of a region's input in pieces (ops::piece_of), as sequence parallelism does.
struct Sharing {
  int ranks = 1;
  int rank = 0;
};

/// What fills the port around a region that computes each token by itself: runs it on some columns of its input after
/// the other, forward and backward, so that what it computes inside never exists of all columns at once. Only the input
/// is kept for backward, where each tile runs again; `keep` as in strategy::recomputed. While a tile runs, the unit's
/// batch has its columns only.
///
/// Results are those of the whole region. Gradients of weights are sums over tiles: those in 16 bits are added up in
/// fp32, all others in their own dtype.
class Tiles {
 public:
  /// `tokens`: of this rank's rows, at most that many in a tile, if not a column has more.
  Tiles(capstan::nn::Unit& unit, std::int64_t tokens, Sharing sharing, capstan::strategy::KeepInput keep);
  at::Tensor operator()(const capstan::nn::Region::Body& body, const at::Tensor& input) const;

 private:
  capstan::nn::Unit* unit_;
  std::int64_t tokens_;
  Sharing sharing_;
  capstan::strategy::KeepInput keep_;
};

}  // namespace recompute
