#include "delta_by_kernels.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "operators.h"

namespace qwen3_5 {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kernel_chunk = 64;
constexpr std::size_t input_count = 5;

/// A segment of q, k, v, decay and beta, and of begins.
struct Segment {
  variable_list inputs;
  Maybe begins;
};

Segment segment_of(const variable_list& saved, std::int64_t begin, std::int64_t length) {
  Segment made;
  for (std::size_t i = 0; i < input_count; ++i) made.inputs.push_back(saved[i].narrow(1, begin, length));
  if (saved[input_count].defined()) made.begins = saved[input_count].narrow(1, begin, length);
  return made;
}

at::Tensor joined(const variable_list& parts) { return parts.size() == 1 ? parts.front() : at::cat(parts, 1); }

class KernelsFunction : public torch::autograd::Function<KernelsFunction> {
 public:
  // `tensors`: q, k, v, decay, beta.
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, const Maybe& begins,
                               std::int64_t segment) {
    static const auto op = find_operator<Delta>("capstan::delta_rule");
    variable_list saved(tensors.begin(), tensors.end());
    saved.push_back(begins.value_or(at::Tensor()));
    const auto length = tensors[0].size(1);
    variable_list outs;
    Maybe state;
    for (std::int64_t begin = 0; begin < length; begin += segment) {
      const auto part = segment_of(saved, begin, std::min(segment, length - begin));
      if (state) saved.push_back(*state);
      auto [out, last] = op.call(part.inputs, part.begins, state);
      outs.push_back(out);
      state = last;
    }
    ctx->save_for_backward(saved);
    ctx->saved_data["segment"] = segment;
    ctx->mark_non_differentiable({*state});
    return {joined(outs), *state};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    static const auto op = find_operator<DeltaBack>("capstan::delta_rule_back");
    const auto saved = ctx->get_saved_variables();
    const auto segment = ctx->saved_data["segment"].toInt(), length = saved[0].size(1);
    std::vector<variable_list> parts(input_count);
    Maybe of_state;
    for (auto i = (length - 1) / segment; i >= 0; --i) {
      const auto begin = i * segment, tokens = std::min(segment, length - begin);
      const auto part = segment_of(saved, begin, tokens);
      const auto first = i > 0 ? Maybe(saved[input_count + static_cast<std::size_t>(i)]) : std::nullopt;
      const auto made = op.call(gradients[0].narrow(1, begin, tokens), part.inputs, part.begins, first, of_state);
      for (std::size_t at = 0; at < input_count; ++at) parts[at].insert(parts[at].begin(), made[at]);
      of_state = made[input_count];
    }
    variable_list out;
    for (std::size_t at = 0; at < input_count; ++at) out.push_back(joined(parts[at]).to(saved[at].scalar_type()));
    out.insert(out.end(), {at::Tensor(), at::Tensor()});
    return out;
  }
};

bool has_types(const DeltaInput& in) {
  const auto is_narrow = [](const at::Tensor& x) { return x.scalar_type() == at::kBFloat16; };
  return is_narrow(in.q) && is_narrow(in.k) && is_narrow(in.v) && in.decay.scalar_type() == at::kFloat &&
         (is_narrow(in.beta) || in.beta.scalar_type() == at::kFloat);
}

bool has_sizes(const DeltaInput& in, const DeltaCut& cut) {
  const auto dim = in.v.size(3);
  return (dim == 64 || dim == 128) && in.k.size(3) == dim && cut.chunk == kernel_chunk &&
         cut.segment % kernel_chunk == 0;
}

}  // namespace

bool has_delta_kernels(const DeltaInput& in, const DeltaCut& cut) {
  if (in.v.is_cpu() || in.v.numel() == 0 || !has_types(in) || !has_sizes(in, cut)) return false;
  static const auto op = find_operator<HasDelta>("capstan::has_delta_rule");
  return op.call(in.v);
}

DeltaResult delta_by_kernels(const DeltaInput& in, const DeltaCut& cut) {
  const variable_list tensors{in.q, in.k, in.v, in.decay, in.beta};
  const auto made = KernelsFunction::apply(at::TensorList(tensors), maybe(in.begins), cut.segment);
  return {made[0], made[1]};
}

}  // namespace qwen3_5
