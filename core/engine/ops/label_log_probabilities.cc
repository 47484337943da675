#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/ops/label_log_probabilities.h>

#include <limits>

#include "ops/operator.h"
#include "ops/scaled.h"
#include "ops/vocabulary_chunks.h"

namespace capstan::ops {
namespace {

struct Rows {
  std::int64_t in_chunk;
  bool need_gradients;
  std::optional<double> cap;
};

class LabelLogProbabilities : public Function<LabelLogProbabilities> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& hidden, const at::Tensor& weight,
                            const at::Tensor& labels, const Rows& row, const std::optional<VocabularyPart>& part) {
    const bool again = row.need_gradients && weight.requires_grad();
    const bool keeps_gradient = row.need_gradients && hidden.requires_grad() && !again;
    const TargetRows targets(hidden, labels);
    HeadProducts products(targets.hidden(), weight, {.hidden_gradient = keeps_gradient}, row.cap);
    VocabularyChunks chunks(products, part, again);
    chunks.compute(targets.labels(), row.in_chunk);
    if (again) {
      const auto& kept = chunks.statistics();
      ctx->save_for_backward({targets.rows(), hidden, weight, targets.labels(), kept.maximum, kept.sum, kept.picked});
      ctx->saved_data["chunk_rows"] = row.in_chunk;
      ctx->saved_data["cap"] = row.cap;
      ctx->saved_data["begin"] = part ? part->begin : whole;
    } else {
      ctx->save_for_backward({targets.rows(), products.grad_hidden()});
    }
    ctx->saved_data["count"] = hidden.size(0);
    return TargetRows::among(chunks.losses().neg(), targets.rows(), hidden.size(0));
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    // The chunks know losses, which are minus what came out.
    const auto factors = TargetRows::some(gradients[0], saved[0]).neg().unsqueeze(1);
    return saved.size() > 2 ? gradients_again(ctx, saved, factors) : multiplied(ctx, saved, factors);
  }

 private:
  static constexpr std::int64_t whole = -1;

  static variable_list multiplied(AutogradContext* ctx, const variable_list& saved, const at::Tensor& factors) {
    if (!saved[1].defined()) return variable_list(5);
    auto grad_hidden = at::empty_like(saved[1]);
    at::mul_out(grad_hidden, saved[1], factors);  // rounded once to the dtype of hidden
    return {TargetRows::among(grad_hidden, saved[0], ctx->saved_data["count"].toInt()), {}, {}, {}, {}};
  }

  // A number that the weight's factors are divided by, so that 16 bits hold them.
  static at::Tensor largest_of(const at::Tensor& factors) {
    if (factors.numel() == 0) return at::ones({}, factors.options());
    return at::maximum(factors.amax(), factors.amin().neg()).clamp_min(std::numeric_limits<float>::min());
  }

  static variable_list gradients_again(AutogradContext* ctx, const variable_list& saved, const at::Tensor& factors) {
    const auto hidden = TargetRows::some(saved[1], saved[0]);
    const auto begin = ctx->saved_data["begin"].toInt();
    const auto part = begin == whole ? std::optional<VocabularyPart>() : VocabularyPart{nullptr, begin, ""};
    HeadProducts products(hidden, saved[2],
                          {.hidden_gradient = ctx->needs_input_grad(0), .weight_gradient = ctx->needs_input_grad(1)},
                          ctx->saved_data["cap"].toOptional<double>());
    const auto largest = largest_of(factors);
    products.set_factors({factors, factors / largest});
    VocabularyChunks(products, part, false)
        .gradients_again(saved[3], ctx->saved_data["chunk_rows"].toInt(), {saved[4], saved[5], saved[6]});
    const auto& of_weight = products.grad_weight();
    const auto grad_weight = of_weight.defined() ? scaled(of_weight, largest, saved[1].scalar_type()) : of_weight;
    const auto count = ctx->saved_data["count"].toInt();
    return {TargetRows::among(products.grad_hidden(), saved[0], count), grad_weight, {}, {}, {}};
  }
};

}  // namespace

at::Tensor chunked_label_log_probabilities(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                           std::int64_t chunk_rows, std::optional<double> cap) {
  check_loss_inputs(hidden, weight, labels, chunk_rows);
  return LabelLogProbabilities::apply(hidden, weight, labels, Rows{chunk_rows, at::GradMode::is_enabled(), cap},
                                      std::optional<VocabularyPart>());
}

at::Tensor split_label_log_probabilities(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                         std::int64_t chunk_rows, const VocabularyPart& part,
                                         std::optional<double> cap) {
  check_loss_inputs(hidden, weight, labels, chunk_rows);
  CAPSTAN_ASSERT(part.group != nullptr);
  return LabelLogProbabilities::apply(hidden, weight, labels, Rows{chunk_rows, at::GradMode::is_enabled(), cap},
                                      std::optional(part));
}

}  // namespace capstan::ops
