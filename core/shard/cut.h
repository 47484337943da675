#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/mesh.h>
#include <capstan/nn/weight.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

/// A rank's part of a record: together in the rank's chunk of a weight, in the whole weight in equal blocks (one, where
/// dimension 0 is cut).
struct Piece {
  std::size_t record = 0;        ///< index into the weight's records
  std::int64_t in_chunk = 0;     ///< offset in the rank's chunk, elements
  std::int64_t in_whole = 0;     ///< offset of the first block in the rank's whole (compute) weight, elements
  std::int64_t numel = 0;        ///< of all blocks; may be 0
  std::int64_t blocks = 1;       ///< at least 1
  std::int64_t block_apart = 0;  ///< from one block's begin to the next one's in the whole weight, elements

  /// Its elements in a flat whole weight, and in a flat chunk: views of one shape.
  at::Tensor of_whole(const at::Tensor& flat) const;
  at::Tensor of_chunk(const at::Tensor& flat) const;
  /// Block `i` as a piece of its own.
  Piece block(std::int64_t i) const;
};

/// How one weight is cut over the `ranks` of its data group: each record along one dimension (Param::sharded) by
/// layout::Cut's rule, a rank's parts of the records of a fused group side by side. Every rank's chunk takes the same
/// room.
///
/// Storage is rounded up to 64 elements and the rest kept zero: collectives then have equal pieces, and ATen's CPU
/// AdamW, whose scalar tail rounds otherwise than its vector body, sees no tail whatever the cut.
struct WeightCut {
  int ranks = 1;
  std::vector<std::vector<Piece>> pieces;  ///< by rank of the group, one a record
  std::int64_t numel = 0;                  ///< of the whole weight
  std::int64_t chunk_room = 0;             ///< of a rank's chunk, padded
  std::int64_t whole_room = 0;             ///< of the whole weight, padded
  std::vector<std::int64_t> shape;         ///< of the whole weight as the layer uses it
  /// Each record's pieces, one rank's behind the other's, are the record itself: `strides` elements apart, the last
  /// record's end in its room. Then collectives can read and write the whole weight in place.
  bool in_place = true;
  bool even = true;                   ///< … and nothing is padded at all
  std::vector<std::int64_t> strides;  ///< by record: elements of each rank's piece, padding included
};

/// Sizes follow from the records' compute layouts on this rank.
WeightCut cut_weight(const nn::Weight& weight, const layout::Mesh& mesh, int rank, int group_size);

/// `elements` rounded up to whole 64.
std::int64_t padded(std::int64_t elements);

}  // namespace shard
CAPSTAN_END_NAMESPACE
