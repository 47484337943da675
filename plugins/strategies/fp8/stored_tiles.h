#pragma once

#include <memory>

#include "quantise_blocks.h"
#include "stored.h"

namespace fp8 {

/// A frozen matrix that is in memory in 8 bits alone, with a scale for each tile of 128 x 128, as quantise_tiles
/// makes them. The transpose has the same numbers, to the bit.
///
/// The shard engine moves a number for each row. Of a row of tiles these 128 are its scales: two of 16 bits each, which
/// powers of two are.
class StoredTiles : public Stored {
 public:
  /// What fits these.
  static constexpr std::int64_t most_columns = 2 * quantised_block * quantised_block;

  /// Of a matrix whose rows have so many columns on all ranks together.
  explicit StoredTiles(std::int64_t columns) : Stored(2), columns_(columns) {}
  Quantised rows(const at::Tensor& bytes) const override;
  Quantised columns(const at::Tensor& bytes) const override;

  std::size_t stacked() const override { return 0; }
  /// Rows, and then the tiles' scales.
  std::int64_t bytes(const Extent& extent) const override;
  /// Of a whole matrix.
  void encode(const Extent& extent, const at::Tensor& values, const at::Tensor& bytes, const Sum& sum) const override;
  void decode(const Extent& extent, const at::Tensor& bytes, const at::Tensor& values) const override;
  /// `values` are whole tiles.
  at::Tensor encode_rows(const at::Tensor& values, const at::Tensor& bytes) const override;
  void keep(const at::Tensor& scales) const override;

 private:
  struct Kept {
    at::Tensor given;                ///< what keep() got
    at::Tensor rows, columns, ones;  ///< scales; what changes none
  };
  void find_scales(const at::Tensor& bytes) const;
  std::int64_t columns_;
  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

}  // namespace fp8
