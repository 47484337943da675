#include "heads.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <capstan/base/error.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "operators.h"

namespace qwen3 {

namespace nn = capstan::nn;
namespace ops = capstan::ops;

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

constexpr std::int64_t most_features = 512;  // of a head, which one warp has in registers

template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

at::Tensor dense(const at::Tensor& heads) { return heads.stride(-1) == 1 ? heads : heads.contiguous(); }

class NormedHeads : public torch::autograd::Function<NormedHeads> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& fused, const nn::Attention::Heads& own,
                               const Norms& norms, const at::Tensor& positions,
                               const std::vector<double>& frequencies) {
    ctx->save_for_backward({fused, positions, norms.query, norms.key});
    ctx->saved_data["epsilon"] = norms.epsilon;
    ctx->saved_data["frequencies"] = frequencies;
    static const auto op = find_operator<Forward>("capstan::qwen3_heads");
    const at::AutoDispatchBelowADInplaceOrView guard;  // outputs of their own, no views that autograd follows
    const std::array<std::int64_t, 2> counts{own.queries, own.keys};
    const auto heads = op.call(fused, {norms.query, norms.key}, positions, counts, norms.epsilon, frequencies);
    const auto both = own.queries + own.keys;
    return {heads.narrow(2, 0, own.queries), heads.narrow(2, own.queries, own.keys),
            fused.narrow(2, both, fused.size(2) - both)};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    static const auto op = find_operator<Backward>("capstan::qwen3_heads_back");
    variable_list of_heads;
    std::transform(gradients.begin(), gradients.end(), std::back_inserter(of_heads), dense);
    const auto saved = ctx->get_saved_variables();
    variable_list result(5);  // one an argument of forward
    result[0] = op.call(of_heads, saved[0], {saved[2], saved[3]}, saved[1], ctx->saved_data["epsilon"].toDouble(),
                        ctx->saved_data["frequencies"].toDoubleVector());
    return result;
  }
};

// Are they a GPU's, or planned for one (on the meta device), and frozen? Both tell alike in a unit's forward and where
// it is recomputed.
bool takes(const at::Tensor& fused, std::int64_t dim, const Norms& norms) {
  const auto type = fused.scalar_type();
  const auto is_frozen = [&](const at::Tensor& norm) { return !norm.requires_grad() && norm.scalar_type() == type; };
  const bool has_kernel = type == at::kDouble || type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
  return !fused.is_cpu() && has_kernel && dim <= most_features && is_frozen(norms.query) && is_frozen(norms.key);
}

}  // namespace

ops::RotaryHeads normed_heads(const at::Tensor& fused, const nn::Attention::Heads& own, const Norms& norms,
                              const at::Tensor& positions, const std::vector<double>& frequencies) {
  const auto dim = fused.size(-1);
  CAPSTAN_ASSERT(fused.dim() == 4 && dim % 2 == 0 && dim <= most_features && fused.stride(-1) == 1);
  CAPSTAN_ASSERT(own.queries >= 0 && own.keys >= 0 && own.queries + own.keys <= fused.size(2));
  CAPSTAN_ASSERT(norms.query.numel() == dim && norms.key.numel() == dim);
  CAPSTAN_ASSERT(static_cast<std::int64_t>(frequencies.size()) * 2 == dim && positions.scalar_type() == at::kLong);
  CAPSTAN_ASSERT(positions.sizes() == fused.sizes().slice(0, 2) && positions.device() == fused.device());
  const auto parts = NormedHeads::apply(fused, own, norms, positions, frequencies);
  return {parts[0], parts[1], parts[2]};
}

nn::HeadsRow at_once_row(double epsilon) {
  const auto norms_of = [epsilon](const nn::HeadsCall& call) -> Norms {
    return {call.query_norm->weight()->value(), call.key_norm->weight()->value(), epsilon};
  };
  const auto takes_call = [norms_of](const nn::HeadsCall& call) -> nn::Verdict {
    const bool is_for_it = call.query_norm && call.key_norm && call.rotary && call.order == nn::HeadOrder::by_kind &&
                           call.own.values() == call.own.dim;
    if (!is_for_it) return nn::WhyNot{"norms of q and k and rotary positions", false};
    if (!takes(call.fused, call.own.dim, norms_of(call)))
      return nn::WhyNot{"CPUs, trained norms, or heads of this kind"};
    return {};
  };
  const auto run = [norms_of](const nn::HeadsCall& call) {
    const at::Tensor heads = call.fused.view({call.fused.size(0), call.fused.size(1), -1, call.own.dim});
    return normed_heads(heads, call.own, norms_of(call), call.batch->positions,
                        call.rotary->frequencies(heads.scalar_type()));
  };
  return {"norms and rotation at once", takes_call, run};
}

}  // namespace qwen3
