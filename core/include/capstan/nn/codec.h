#pragma once
#include <capstan/base/export.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// Keeps the values of a frozen weight in fewer bytes. A strategy sets one on the weight in structure(); the shard
/// engine then holds, shards and gathers bytes, and decodes them into the weight that a unit computes with, shortly
/// before it does.
///
/// A rank's shard of a record is encoded on its own, and stands for the values that it would stand for as part of the
/// whole record: what is learnt does not depend on how many ranks share it. Shards are rows that begin at multiples of
/// grain() in their matrix, so that some ranks have fewer than others, or none.
class Codec {
 public:
  virtual ~Codec();

  /// A rank's shard of a record: `matrices`, or equal parts of them, with `elements` each, in row-major order.
  struct Extent {
    std::int64_t matrices = 1;
    std::int64_t elements = 0;
    bool is_part = false;  ///< other ranks hold the rest of each matrix
    /// Where a part has some columns of its rows: how many, out of how many, and the first. 0: it has whole rows.
    std::int64_t columns = 0, of_columns = 0, first_column = 0;
    std::int64_t numel() const { return matrices * elements; }
    /// Elements of a matrix from this part's first row to its last, other ranks' columns included.
    std::int64_t span() const { return columns == 0 ? elements : elements / columns * of_columns; }
  };
  /// Adds up tensors (float64, on the values' device) over ranks, in place. Where several ranks hold the same part,
  /// each counts; every part has as many holders.
  struct Sum {
    using Add = std::function<void(const at::Tensor&)>;
    Sum() = default;
    Sum(Add add) : all(add), columns(std::move(add)) {}
    Sum(Add over_all, Add over_columns) : all(std::move(over_all)), columns(std::move(over_columns)) {}
    Add all;      ///< over the ranks that share the record
    Add columns;  ///< over those that have columns of the same rows
  };

  /// For messages: its strategy.
  virtual std::string name() const = 0;
  /// Leading dimensions of the record that count matrices (experts), each of which is encoded on its own.
  virtual std::size_t stacked() const = 0;
  /// How many elements of a matrix, in row-major order, share something that the codec keeps: data ranks' shards are
  /// cut at multiples of it.
  virtual std::int64_t grain() const { return 1; }
  /// Why this cannot be encoded, as the end of a sentence; empty: it can. Asked of what a rank computes with, before
  /// data ranks share it.
  virtual std::string refusal(const Extent& extent) const = 0;
  /// The size of the encoded extent; a multiple of 16.
  virtual std::int64_t bytes(const Extent& extent) const = 0;
  /// Encodes `values` [matrices, elements], contiguous with a floating-point dtype, to `bytes` [bytes(extent)] uint8 on
  /// the same device. Calls each of `sum` as often on all ranks, and only where the extent is a part, or has a part of
  /// the columns. A part may have no elements; the parts with other columns of its rows then have none either, and all
  /// of them leave out sum.columns.
  virtual void encode(const Extent& extent, const at::Tensor& values, const at::Tensor& bytes,
                      const Sum& sum) const = 0;
  /// The way back, to `values` [matrices, elements] whose rows are contiguous. Queued on the current stream.
  virtual void decode(const Extent& extent, const at::Tensor& bytes, const at::Tensor& values) const = 0;
};

/// A codec of rows, a byte an element and a scale for each, with which units compute as they are: the weight that
/// layers see is uint8 and has the usual shape. The shard engine shards, gathers and offloads it as it would the
/// values, and keeps it on each rank where it would keep those; a rank's shard is whole rows, however many.
///
/// What Codec says of matrices holds for rows: stacked() is all dimensions but the last.
class RowCodec : public Codec {
 public:
  /// Encodes `values` [n, columns], contiguous with a floating-point dtype, to `bytes` [n, columns] uint8 on the same
  /// device. Returns their scales, [n] float32. Ranks that compute with other columns of these rows make the same
  /// calls.
  virtual at::Tensor encode_rows(const at::Tensor& values, const at::Tensor& bytes) const = 0;
  /// The scales of all rows of the weight that this rank computes with, [rows] on its device. Whenever the weight has
  /// been filled; all ranks' rows are there, gathered or not.
  virtual void keep(const at::Tensor& scales) const = 0;
};

/// Gathers a trained weight in a byte an element, with one scale, from shards whose masters stay what they are: each
/// rank encodes its shard, and units compute with the bytes of all ranks. The weight that layers see has the compute
/// dtype, the usual shape and a gradient, but no memory: who multiplies with it asks the codec. Where nothing is
/// gathered the weight is one like any other, and bind() is not called.
///
/// All weights of a model have codecs of one kind. On the training thread.
class GatherCodec {
 public:
  virtual ~GatherCodec();
  /// For messages: a word.
  virtual std::string name() const = 0;
  /// The scales of weights with these largest magnitudes, which are of all ranks' elements in the compute dtype: [n]
  /// float32 both. Not finite for what is not.
  virtual at::Tensor scales_of(const at::Tensor& largest) const = 0;
  /// `values` [n] of the compute dtype, n a multiple of 16, to `bytes` [n] uint8 on the same device. `largest`: [1].
  /// Queued on the current stream. An element's byte depends on nothing but the element and `largest`.
  virtual void encode(const at::Tensor& values, const at::Tensor& largest, const at::Tensor& bytes) const = 0;
  /// What units will compute with: uint8 of the weight's shape on this rank, whose memory is there while the weight is
  /// gathered, and its scale [1], at whole 16 bytes, which each update writes again. In a dry run meta tensors.
  virtual void bind(at::Tensor bytes, at::Tensor scale) = 0;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
