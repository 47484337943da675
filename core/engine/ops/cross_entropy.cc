#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/ops/cross_entropy.h>

#include <algorithm>

#include <capstan/ops/head_products.h>
#include "ops/vocabulary_chunks.h"

namespace capstan::ops {
namespace {

at::Tensor cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                         std::int64_t chunk_rows, const std::optional<VocabularyPart>& part,
                         std::optional<double> cap) {
  check_loss_inputs(hidden, weight, labels, chunk_rows);
  const auto loss = [&](const TargetRows& targets, HeadProducts& products) {
    VocabularyChunks chunks(products, part, false);
    chunks.compute(targets.labels(), chunk_rows);
    // Added in float64: one rounding, whatever the number of rows.
    return chunks.losses().sum(at::kDouble).to(products.sum_type());
  };
  return loss_of_head(hidden, weight, labels, loss, cap);
}

}  // namespace

at::Tensor chunked_linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                        std::int64_t chunk_rows, std::optional<double> cap) {
  return cross_entropy(hidden, weight, labels, chunk_rows, std::nullopt, cap);
}

at::Tensor split_linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                      std::int64_t chunk_rows, const VocabularyPart& part, std::optional<double> cap) {
  CAPSTAN_ASSERT(part.group != nullptr);
  return cross_entropy(hidden, weight, labels, chunk_rows, part, cap);
}

std::int64_t cross_entropy_chunk_rows(std::int64_t vocabulary, bool trains_weight) {
  constexpr std::int64_t tile = 256;   // what products compute at once: no part of one is left over
  constexpr std::int64_t deep = 2048;  // rows in a product whose result, as large as the matrix, is read and written
  constexpr std::int64_t logits = std::int64_t{1} << 28;
  const auto rows_of = [&](std::int64_t count) { return count / vocabulary / tile * tile; };
  const auto rows = trains_weight ? std::max(rows_of(logits), std::min(deep, rows_of(2 * logits))) : rows_of(logits);
  return std::max(tile, rows);
}

}  // namespace capstan::ops
