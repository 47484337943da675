#pragma once
#include <capstan/nn/codec.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "quantise_blocks.h"

namespace fp8 {

/// A frozen weight that is in memory only in 8 bits: rows of e4m3 and a scale for each, as quantise makes them of
/// its values. It stands for bytes · scales, which bfloat16 has exactly.
class Stored : public capstan::nn::Codec {
 public:
  /// Takes the largest magnitudes over the ranks that hold other pieces, in place.
  using Agree = std::function<void(const at::Tensor& magnitudes)>;

  /// For records with this many dimensions.
  explicit Stored(std::size_t dims) : dims_(dims) {}
  /// What ranks hold pieces of each row, or of each column: called for a weight's magnitudes of these.
  void set_agree(Agree rows, Agree columns) {
    kept_->agree_on_rows = std::move(rows);
    kept_->agree_on_columns = std::move(columns);
  }

  /// The weight's bytes [..., out, in] as forward multiplies them.
  virtual Quantised rows(const at::Tensor& bytes) const;
  /// Their transpose as backward does, [..., in, out]: the numbers that they stand for, rounded once more, a scale each
  /// row of the transpose. Memory of its own. The scales are found once; a number is rounded again only where it is
  /// less than 2^-13 of the largest in its column and its row's scale is smaller than that of the column.
  virtual Quantised columns(const at::Tensor& bytes) const;

  Capabilities capabilities() const override { return {.packs = true, .computes_with_rows = true}; }
  std::string name() const override { return "fp8"; }
  std::string fix() const override { return "leave its layer out of strategy.fp8.targets"; }
  std::size_t stacked() const override { return dims_ - 1; }
  /// Rows, and then their scales.
  std::int64_t bytes(const Extent& extent) const override;
  void encode(const Extent& extent, const at::Tensor& values, const at::Tensor& bytes, const Sum& sum) const override;
  void decode(const Extent& extent, const at::Tensor& bytes, const at::Tensor& values) const override;
  at::Tensor encode_rows(const at::Tensor& values, const at::Tensor& bytes) const override;
  void keep_scales(const at::Tensor& scales) override;

 private:
  struct Kept {
    Agree agree_on_rows, agree_on_columns;
    at::Tensor rows, columns;  ///< scales
  };
  std::size_t dims_;
  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

/// A frozen matrix that is in memory only in 8 bits, with a scale for each tile of 128 x 128, as quantise_tiles
/// makes them. The transpose has the same numbers, to the bit.
///
/// The shard engine moves a number for each row. A row of tiles has 128 of them, which are its scales: two of 16 bits
/// each, which powers of two fit.
class StoredTiles : public Stored {
 public:
  /// What fits these.
  static constexpr std::int64_t most_columns = 2 * quantised_block * quantised_block;

  /// For a matrix whose rows have this many columns on all ranks together.
  explicit StoredTiles(std::int64_t columns) : Stored(2), columns_(columns) {}
  Quantised rows(const at::Tensor& bytes) const override;
  Quantised columns(const at::Tensor& bytes) const override;

  std::size_t stacked() const override { return 0; }
  /// Rows, and then the tiles' scales.
  std::int64_t bytes(const Extent& extent) const override;
  /// The extent is a whole matrix.
  void encode(const Extent& extent, const at::Tensor& values, const at::Tensor& bytes, const Sum& sum) const override;
  void decode(const Extent& extent, const at::Tensor& bytes, const at::Tensor& values) const override;
  /// `values` are whole tiles.
  at::Tensor encode_rows(const at::Tensor& values, const at::Tensor& bytes) const override;
  void keep_scales(const at::Tensor& scales) override;

 private:
  struct Kept {
    at::Tensor given;                ///< what keep_scales() got
    at::Tensor rows, columns, ones;  ///< scales; what changes none
  };
  void find_scales(const at::Tensor& bytes) const;
  std::int64_t columns_;
  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

/// The transpose of matrices in 8 bits, [..., m, k] with scales of their rows [..., m, 1], under scales of its own
/// rows,
/// [..., k, 1]. Both are powers of two.
at::Tensor transposed(const Quantised& rows, const at::Tensor& columns);
/// Without memory: a dry run reads none.
at::Tensor unknown_scales(const at::Tensor& values);

}  // namespace fp8
