#include "attention.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/ops/bias_columns.h>
#include <capstan/ops/segment_attention.h>
#include <torch/csrc/autograd/custom_function.h>

#include "heads.h"
#include "operators.h"

namespace bloom {

namespace nn = capstan::nn;
namespace ops = capstan::ops;

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

class FusedAttention : public torch::autograd::Function<FusedAttention> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& fused, const at::Tensor& slopes) {
    static const auto op = find_operator<Forward>("capstan::alibi_attention");
    const at::AutoDispatchBelowADInplaceOrView guard;
    const auto [out, sums] = op.call(fused, slopes);
    ctx->save_for_backward({fused, slopes, out, sums});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    static const auto op = find_operator<Backward>("capstan::alibi_attention_back");
    const auto saved = ctx->get_saved_variables();
    return {op.call(gradients[0], saved[0], saved[2], saved[3], saved[1]), {}};
  }
};

// The rules that hold for all devices come first: what the kernels' own answer costs is a look-up.
bool has_kernels(const at::Tensor& fused, std::int64_t heads) {
  constexpr std::int64_t multiple = 8, most = 128;
  const auto type = fused.scalar_type();
  const auto columns = fused.size(-1) / (3 * heads);
  if (fused.is_cpu() || fused.numel() == 0 || (type != at::kBFloat16 && type != at::kHalf)) return false;
  if (columns % multiple != 0 || columns > most || at::globalContext().deterministicAlgorithms()) return false;
  static const auto op = find_operator<Has>("capstan::has_alibi_attention");
  const bool backward = at::GradMode::is_enabled() && fused.requires_grad();
  const at::AutoDispatchBelowADInplaceOrView guard;  // a question about fused, not a function of it
  return op.call(fused, heads, backward);
}

// Packed samples where they stand: what is between them attends to itself, and nothing reads that.
at::Tensor in_segments(const WidenedHeads& heads, const nn::Documents& documents, double scale) {
  const auto tokens = [](const at::Tensor& part) { return part.transpose(1, 2).flatten(0, 1); };
  const ops::SegmentAttention how{documents.bounds, documents.longest, scale, {}};
  const auto y = ops::segment_attention(tokens(heads.q), tokens(heads.k), tokens(heads.v), how);
  return y.unflatten(0, {heads.q.size(0), heads.q.size(2)}).transpose(1, 2);
}

}  // namespace

at::Tensor attention_by_operator(const at::Tensor& fused, const at::Tensor& slopes) {
  CAPSTAN_ASSERT(fused.dim() == 3 && fused.is_contiguous() && slopes.dim() == 1 && slopes.size(0) > 0);
  CAPSTAN_ASSERT(fused.size(2) % (3 * slopes.size(0)) == 0);
  return FusedAttention::apply(fused, slopes);
}

std::optional<at::Tensor> fused_attention(const at::Tensor& fused, const at::Tensor& slopes) {
  if (!has_kernels(fused, slopes.size(0))) return std::nullopt;
  return attention_by_operator(fused, slopes.contiguous());
}

namespace {

// What neither row is for, or lacks.
nn::Verdict besides_biases(const nn::AttentionCall& call) {
  if (!call.fused.defined() || !call.slopes.defined()) return nn::WhyNot{"a product by head with biases", false};
  if (call.cache) return nn::WhyNot{"tokens without a cache", false};
  if (call.fused.is_cpu()) return nn::WhyNot{"a CPU"};
  if (call.dropout) return nn::WhyNot{"dropout on probabilities"};  // no graph is compiled to ask
  return {};
}

nn::AttentionRow at_once_row() {
  const auto takes = [](const nn::AttentionCall& call) -> nn::Verdict {
    if (auto why = besides_biases(call)) return why;
    if (call.batch->documents) return nn::WhyNot{"rows of one sample", false};
    if (call.spec->scale) return nn::WhyNot{"a scale of its own"};
    if (!has_kernels(call.fused, call.slopes.size(0))) return nn::WhyNot{"heads, a dtype or a GPU of this kind"};
    return {};
  };
  const auto run = [](const nn::AttentionCall& call) -> nn::AttentionResult {
    return {attention_by_operator(call.fused, call.slopes.contiguous())};
  };
  return {"cuDNN with linear biases", {nn::AttentionFeature::linear_biases}, takes, run};
}

nn::AttentionRow in_columns_row() {
  const auto takes = [](const nn::AttentionCall& call) -> nn::Verdict {
    if (auto why = besides_biases(call)) return why;
    const auto& documents = call.batch->documents;
    if (!documents) return {};
    if (!documents->bounds.defined()) return nn::WhyNot{"packed samples that are taken apart", false};
    if (!ops::has_segment_attention(call.fused, ops::bias_columns(call.q.size(-1))))
      return nn::WhyNot{"packed heads of this width or dtype"};
    return {};
  };
  const auto run = [](const nn::AttentionCall& call) -> nn::AttentionResult {
    const auto scale = call.scale();
    const auto heads = widened_heads(call.fused, call.slopes, call.batch->positions, scale);
    if (const auto& documents = call.batch->documents) return {in_segments(heads, *documents, scale)};
    return {at::scaled_dot_product_attention(heads.q, heads.k, heads.v, {}, 0.0, /*is_causal=*/true, scale)};
  };
  return {"linear biases as columns", {nn::AttentionFeature::linear_biases}, takes, run};
}

}  // namespace

std::vector<nn::AttentionRow> rows() { return {at_once_row(), in_columns_row()}; }

}  // namespace bloom
