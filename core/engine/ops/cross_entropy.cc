#include <capstan/base/error.h>
#include <capstan/ops/cross_entropy.h>

#include <algorithm>

#include "ops/operator.h"
#include "ops/scaled.h"
#include "ops/vocabulary_chunks.h"

namespace capstan::ops {
namespace {

class CrossEntropyFunction : public Function<CrossEntropyFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& hidden, const at::Tensor& weight,
                            const at::Tensor& labels, std::int64_t chunk_rows, bool gradients,
                            const std::optional<VocabularyPart>& part) {
    const TargetRows targets(hidden, labels);
    VocabularyChunks chunks(targets.hidden(), weight, part,
                            {.hidden_gradient = gradients && hidden.requires_grad(),
                             .weight_gradient = gradients && weight.requires_grad()});
    chunks.compute(targets.labels(), chunk_rows);
    const auto grad_hidden = TargetRows::among(chunks.grad_hidden(), targets.rows(), hidden.size(0));
    ctx->save_for_backward({grad_hidden, chunks.grad_weight()});
    ctx->saved_data["dtype"] = hidden.scalar_type();
    // Added in float64: one rounding, whatever the number of rows.
    return chunks.losses().sum(at::kDouble).to(chunks.losses().scalar_type());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const at::ScalarType type = ctx->saved_data["dtype"].toScalarType();
    const auto saved = ctx->get_saved_variables();
    return {times(saved[0], gradients[0], type), times(saved[1], gradients[0], type), {}, {}, {}, {}};
  }

 private:
  static at::Tensor times(const at::Tensor& saved, const at::Tensor& factor, at::ScalarType type) {
    return saved.defined() ? scaled(saved, factor, type) : at::Tensor();
  }
};

}  // namespace

at::Tensor chunked_linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                        std::int64_t chunk_rows) {
  check_loss_inputs(hidden, weight, labels, chunk_rows);
  return CrossEntropyFunction::apply(hidden, weight, labels, chunk_rows, at::GradMode::is_enabled(),
                                     std::optional<VocabularyPart>());
}

at::Tensor split_linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                      std::int64_t chunk_rows, const VocabularyPart& part) {
  check_loss_inputs(hidden, weight, labels, chunk_rows);
  CAPSTAN_ASSERT(part.group != nullptr);
  return CrossEntropyFunction::apply(hidden, weight, labels, chunk_rows, at::GradMode::is_enabled(),
                                     std::optional(part));
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
