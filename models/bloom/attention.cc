#include "attention.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <capstan/base/error.h>
#include <torch/csrc/autograd/custom_function.h>

#include "operators.h"

namespace bloom {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

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

}  // namespace

std::optional<at::Tensor> fused_attention(const at::Tensor& fused, const at::Tensor& slopes) {
  CAPSTAN_ASSERT(fused.dim() == 3 && fused.is_contiguous() && slopes.dim() == 1 && slopes.size(0) > 0);
  CAPSTAN_ASSERT(fused.size(2) % (3 * slopes.size(0)) == 0);
  if (!has_kernels(fused, slopes.size(0))) return std::nullopt;
  return FusedAttention::apply(fused, slopes.contiguous());
}

}  // namespace bloom
