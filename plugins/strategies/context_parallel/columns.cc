#include "columns.h"

#include <ATen/ATen.h>
#include <capstan/strategy_parts/collectives.h>

namespace context_parallel {

using namespace capstan;

namespace {

// Chunks in the order of columns, as lengths; those of rank r are r and 2 · ranks - 1 - r.
std::vector<std::int64_t> chunk_lengths(std::int64_t columns, int ranks) {
  std::vector<std::int64_t> lengths;
  for (int chunk = 0; chunk < 2 * ranks; ++chunk) lengths.push_back(ops::piece_of(columns, 2 * ranks, chunk).length);
  return lengths;
}

// Which chunk comes at each place of what is sorted by rank.
std::vector<std::size_t> chunks_by_rank(int ranks) {
  std::vector<std::size_t> chunks;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const int chunk : {rank, 2 * ranks - 1 - rank}) chunks.push_back(static_cast<std::size_t>(chunk));
  }
  return chunks;
}

}  // namespace

std::vector<nn::ColumnRange> own_columns(std::int64_t columns, int ranks, int rank) {
  std::vector<nn::ColumnRange> own;
  for (const int chunk : {rank, 2 * ranks - 1 - rank}) {
    const auto piece = ops::piece_of(columns, 2 * ranks, chunk);
    own.push_back({piece.begin, piece.length});
  }
  return own;
}

std::vector<std::int64_t> column_counts(std::int64_t columns, int ranks) {
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto own = own_columns(columns, ranks, rank);
    counts.push_back(own[0].length + own[1].length);
  }
  return counts;
}

at::Tensor in_order(const at::Tensor& x, int ranks) {
  const auto lengths = chunk_lengths(x.size(0), ranks);
  const auto chunks = chunks_by_rank(ranks);
  std::vector<std::int64_t> sizes;
  for (const auto chunk : chunks) sizes.push_back(lengths[chunk]);
  const auto pieces = x.split_with_sizes(sizes);
  std::vector<at::Tensor> ordered(chunks.size());
  for (std::size_t i = 0; i < chunks.size(); ++i) ordered[chunks[i]] = pieces[i];
  return at::cat(ordered);
}

at::Tensor by_rank(const at::Tensor& x, int ranks) {
  const auto pieces = x.split_with_sizes(chunk_lengths(x.size(0), ranks));
  std::vector<at::Tensor> sorted;
  for (const auto chunk : chunks_by_rank(ranks)) sorted.push_back(pieces[chunk]);
  return at::cat(sorted);
}

}  // namespace context_parallel
