#include "gated_delta_rule.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "delta_by_kernels.h"
#include "tensors.h"

namespace qwen3_5 {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr double epsilon = 1e-6;  // of the lengths of q and k

at::Tensor inverse_length(const at::Tensor& x) { return (x.square().sum(-1, /*keepdim=*/true) + epsilon).rsqrt(); }

// The gradient of x from that of unit = x · inverse.
at::Tensor through_unit(const at::Tensor& gradient, const at::Tensor& unit, const at::Tensor& inverse) {
  return inverse * (gradient - unit * (gradient * unit).sum(-1, /*keepdim=*/true));
}

// [B, S, heads, ...] -> [B, Hk, heads / Hk, chunks, chunk, ...], with zeros after the last token.
at::Tensor in_chunks(const at::Tensor& x, std::int64_t key_heads, std::int64_t chunk, at::ScalarType type) {
  const auto length = x.size(1), missing = (chunk - length % chunk) % chunk;
  auto shape = x.sizes().vec();
  shape[1] = missing;
  const auto whole = missing > 0 ? at::cat({x.to(type), at::zeros(shape, x.options().dtype(type))}, 1) : x.to(type);
  const auto cut = whole.unflatten(1, {-1, chunk}).unflatten(3, {key_heads, -1});
  return cut.movedim({3, 4}, {1, 2}).contiguous();
}

// The way back, for `length` tokens.
at::Tensor as_tokens(const at::Tensor& x, std::int64_t length) {
  return x.movedim({1, 2}, {3, 4}).flatten(3, 4).flatten(1, 2).narrow(1, 0, length);
}

// A segment in chunks: q, k [B, Hk, 1, n, c, key dim], v [B, Hk, R, n, c, value dim], numbers of tokens
// [B, Hk, R, n, c], of pairs of tokens [B, Hk, R, n, c, c].
struct ChunkTokens {
  at::Tensor q, k, v, beta;
  at::Tensor inverse_q, inverse_k;  // of their lengths; q is also divided by sqrt(key dim)
};

struct ChunkDecays {
  at::Tensor between;             // what is left of token j's part of the state at token i >= j
  at::Tensor from_start, to_end;  // what is left of the chunk's first state at a token, and of a token at its end
  at::Tensor through;             // [B, Hk, R, n]: what is left of the first state at the end
};

struct Chunks : ChunkTokens, ChunkDecays {
  at::Tensor kk, qk, inverse, p;  // products of pairs; (1 + A)^-1; qk · between
  at::Tensor k_start, q_start, k_end, u, w;

  Chunks(const DeltaInput& in, std::int64_t chunk);

 private:
  void decays(const at::Tensor& decay, const at::Tensor& begun);
  void products();
};

Chunks::Chunks(const DeltaInput& in, std::int64_t chunk) {
  const auto type = sum_type(in.v);
  const auto heads = in.k.size(2);
  const auto cut = [&](const at::Tensor& x, std::int64_t groups) { return in_chunks(x, groups, chunk, type); };
  q = cut(in.q, heads);
  k = cut(in.k, heads);
  v = cut(in.v, heads);
  beta = cut(in.beta, heads);
  inverse_q = inverse_length(q);
  inverse_k = inverse_length(k);
  q = q * inverse_q / std::sqrt(static_cast<double>(q.size(-1)));
  k = k * inverse_k;
  decays(cut(in.decay, heads), in.begins.defined() ? cut(in.begins.unsqueeze(-1), 1).cumsum(-1) : at::Tensor());
  products();
}

// `begun` [B, 1, 1, n, c]: how many sequences have begun in the chunk so far. Undefined: none.
void Chunks::decays(const at::Tensor& decay, const at::Tensor& begun) {
  const auto sum = decay.cumsum(-1);
  const auto length = sum.size(-1);
  const auto last = sum.narrow(-1, length - 1, 1);
  auto hidden = at::ones({length, length}, sum.options().dtype(at::kBool)).triu(1);
  if (begun.defined()) hidden = hidden.logical_or(begun.unsqueeze(-1).ne(begun.unsqueeze(-2)));
  between = (sum.unsqueeze(-1) - sum.unsqueeze(-2)).masked_fill(hidden, -std::numeric_limits<double>::infinity()).exp();
  from_start = sum.exp();
  to_end = (last - sum).exp();
  if (begun.defined()) {
    from_start = from_start * begun.eq(0);
    to_end = to_end * begun.eq(begun.narrow(-1, length - 1, 1));
  }
  through = from_start.select(-1, length - 1);
}

// (1 + A)^-1, A below the diagonal. Nothing is there to be computed on the meta device, which has no such solver.
at::Tensor inverse_of(const at::Tensor& a) {
  if (a.is_meta()) return at::empty_like(a);
  const auto one = at::eye(a.size(-1), a.options()).expand_as(a);
  return at::linalg_solve_triangular(a, one, /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
}

void Chunks::products() {
  kk = at::matmul(k, k.mT());
  qk = at::matmul(q, k.mT());
  inverse = inverse_of(beta.unsqueeze(-1) * kk * between);
  p = qk * between;
  k_start = k * from_start.unsqueeze(-1);
  q_start = q * from_start.unsqueeze(-1);
  k_end = k * to_end.unsqueeze(-1);
  const auto written = inverse * beta.unsqueeze(-2);
  u = at::matmul(written, v);
  w = at::matmul(written, k_start);
}

// What chunks write, and their first states.
struct Scan {
  at::Tensor written;  // [B, Hk, R, n, c, value dim]
  at::Tensor states;   // [B, Hk, R, n, key dim, value dim]
  at::Tensor last;
};

at::Tensor of_each(const at::Tensor& factor) { return factor.unsqueeze(-1).unsqueeze(-1); }

Scan scan(const Chunks& in, at::Tensor state) {
  std::vector<at::Tensor> written, states;
  const auto count = in.v.size(3);
  const auto through = of_each(in.through);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto of_chunk = in.u.select(3, i) - at::matmul(in.w.select(3, i), state);
    written.push_back(of_chunk);
    states.push_back(state);
    state = through.select(3, i) * state + at::matmul(in.k_end.select(3, i).mT(), of_chunk);
  }
  return {at::stack(written, 3), at::stack(states, 3), state};
}

struct Gradients {
  at::Tensor q, k, v, decay, beta;  // in chunks
  at::Tensor state;                 // of the segment's first state
};

// What a chunk's tokens and its state get through the state that it leaves.
struct ScanGradients {
  at::Tensor written, states_after;
  at::Tensor first_state;
};

ScanGradients scan_backward(const Chunks& in, const at::Tensor& gradient, at::Tensor of_state) {
  const auto own = at::matmul(in.p.mT(), gradient), read = at::matmul(in.q_start.mT(), gradient);
  const auto through = of_each(in.through);
  const auto count = in.v.size(3);
  std::vector<at::Tensor> written(static_cast<std::size_t>(count)), after(written.size());
  for (auto i = count - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    after[at] = of_state;
    written[at] = own.select(3, i) + at::matmul(in.k_end.select(3, i), of_state);
    of_state = read.select(3, i) + through.select(3, i) * of_state - at::matmul(in.w.select(3, i).mT(), written[at]);
  }
  return {at::stack(written, 3), at::stack(after, 3), of_state};
}

// By hand: with M = v - k_start S, written = (1 + A)^-1 (beta M), out = q_start S + p written, and the state after it
// through S + k_end^T written.
Gradients backward_of(const Chunks& in, const at::Tensor& first, const at::Tensor& gradient,
                      const at::Tensor& of_state) {
  const auto now = scan(in, first);
  const auto from = scan_backward(in, gradient, of_state);
  const auto beta = in.beta.unsqueeze(-1);
  const auto of_rows = at::matmul(in.inverse.mT(), from.written);
  const auto of_p = at::matmul(gradient, now.written.mT());
  const auto of_a = at::matmul(of_rows, now.written.mT()).neg().tril(-1);
  const auto of_kk = of_a * beta * in.between, of_qk = of_p * in.between;
  Gradients out;
  out.v = beta * of_rows;
  const auto of_k_start = at::matmul(out.v, now.states.mT()).neg();
  const auto of_q_start = at::matmul(gradient, now.states.mT());
  const auto of_k_end = at::matmul(now.written, from.states_after.mT());
  out.beta = (of_rows * (in.v - at::matmul(in.k_start, now.states))).sum(-1) + (of_a * in.kk * in.between).sum(-1);
  out.q = at::matmul(of_qk, in.k) + of_q_start * in.from_start.unsqueeze(-1);
  out.k = at::matmul(of_qk.mT(), in.q) + at::matmul(of_kk + of_kk.mT(), in.k) +
          of_k_start * in.from_start.unsqueeze(-1) + of_k_end * in.to_end.unsqueeze(-1);
  // The gradients of the sums of decays, which are exponents in each of these.
  const auto of_pairs = of_qk * in.qk + of_kk * in.kk;
  const auto of_ends = (of_k_end * in.k_end).sum(-1);
  auto sums =
      of_pairs.sum(-1) - of_pairs.sum(-2) + (of_q_start * in.q_start + of_k_start * in.k_start).sum(-1) - of_ends;
  sums.select(-1, sums.size(-1) - 1)
      .add_(of_ends.sum(-1) + in.through * (now.states * from.states_after).sum(at::IntArrayRef{-1, -2}));
  // A token's decay is in the sums of all from it on.
  out.decay = at::matmul(sums, at::ones({sums.size(-1), sums.size(-1)}, sums.options()).tril());
  out.state = from.first_state;
  const auto root = std::sqrt(static_cast<double>(in.q.size(-1)));
  out.q = through_unit(out.q.sum(2, /*keepdim=*/true) / root, in.q * root, in.inverse_q);
  out.k = through_unit(out.k.sum(2, /*keepdim=*/true), in.k, in.inverse_k);
  return out;
}

DeltaInput part_of(const DeltaInput& in, std::int64_t begin, std::int64_t length) {
  const auto part = [&](const at::Tensor& x) { return x.defined() ? x.narrow(1, begin, length) : x; };
  return {part(in.q), part(in.k), part(in.v), part(in.decay), part(in.beta), part(in.begins)};
}

// Where a token begins a sequence the state is 0, so that its decay is of no account.
at::Tensor without_begins(const at::Tensor& decay, const at::Tensor& begins) {
  return begins.defined() ? decay.masked_fill(begins.unsqueeze(-1), 0) : decay;
}

at::Tensor no_state(const DeltaInput& in) {
  const auto heads = in.k.size(2);
  return at::zeros({in.v.size(0), heads, in.v.size(2) / heads, in.k.size(3), in.v.size(3)},
                   in.v.options().dtype(sum_type(in.v)));
}

// What the function has saved: q, k, v, decay, beta, begins, and states.
DeltaInput input_of(const variable_list& saved) {
  return {saved[0], saved[1], saved[2], without_begins(saved[3], saved[5]), saved[4], saved[5]};
}

class DeltaFunction : public Function<DeltaFunction> {
 public:
  // `tensors`: q, k, v, decay, beta.
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, const Maybe& begins, const DeltaCut& cut) {
    variable_list saved(tensors.begin(), tensors.end());
    saved.push_back(begins.value_or(at::Tensor()));
    const auto in = input_of(saved);
    auto state = no_state(in);
    std::vector<at::Tensor> outs;
    for (std::int64_t begin = 0; begin < in.q.size(1); begin += cut.segment) {
      const auto length = std::min(cut.segment, in.q.size(1) - begin);
      const Chunks chunks(part_of(in, begin, length), cut.chunk);
      const auto now = scan(chunks, state);
      if (begin > 0) saved.push_back(state);
      const auto out = at::matmul(chunks.q_start, now.states) + at::matmul(chunks.p, now.written);
      outs.push_back(as_tokens(out, length).to(in.v.scalar_type()));
      state = now.last;
    }
    ctx->save_for_backward(saved);
    ctx->saved_data["chunk"] = cut.chunk;
    ctx->saved_data["segment"] = cut.segment;
    auto last = state.flatten(1, 2);
    ctx->mark_non_differentiable({last});
    return {outs.size() == 1 ? outs.front().contiguous() : at::cat(outs, 1), last};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto chunk = ctx->saved_data["chunk"].toInt(), segment = ctx->saved_data["segment"].toInt();
    const auto in = input_of(saved);
    const auto type = sum_type(in.v);
    auto of_state = no_state(in);
    std::vector<variable_list> parts(5);
    const auto segments = (in.q.size(1) + segment - 1) / segment;
    for (auto i = segments - 1; i >= 0; --i) {
      const auto begin = i * segment, length = std::min(segment, in.q.size(1) - begin);
      const Chunks chunks(part_of(in, begin, length), chunk);
      const auto gradient = in_chunks(gradients[0].narrow(1, begin, length), in.k.size(2), chunk, type);
      const auto first = i > 0 ? saved[static_cast<std::size_t>(5 + i)] : no_state(in);
      const auto of = backward_of(chunks, first, gradient, of_state);
      of_state = of.state;
      const std::vector<at::Tensor> each{of.q, of.k, of.v, of.decay, of.beta};
      for (std::size_t at = 0; at < each.size(); ++at)
        parts[at].insert(parts[at].begin(), as_tokens(each[at], length).to(saved[at].scalar_type()));
    }
    variable_list out;
    for (const auto& part : parts) out.push_back(part.size() == 1 ? part.front() : at::cat(part, 1));
    out[3] = without_begins(out[3], in.begins);
    out.insert(out.end(), {at::Tensor(), at::Tensor()});
    return out;
  }
};

}  // namespace

DeltaResult gated_delta_rule(const DeltaInput& in, const DeltaCut& cut) {
  if (has_delta_kernels(in, cut)) return delta_by_kernels(in, cut);
  const variable_list tensors{in.q, in.k, in.v, in.decay, in.beta};
  const auto made = DeltaFunction::apply(at::TensorList(tensors), maybe(in.begins), cut);
  return {made[0], made[1]};
}

DeltaResult recurrent_gated_delta_rule(const DeltaInput& in, const at::Tensor& state) {
  const auto type = sum_type(in.v);
  const auto repeats = in.v.size(2) / in.k.size(2);
  const auto unit = [&](const at::Tensor& x) {
    const auto wide = x.to(type);
    return (wide * inverse_length(wide)).repeat_interleave(repeats, 2);
  };
  const auto q = unit(in.q) / std::sqrt(static_cast<double>(in.q.size(-1))), k = unit(in.k);
  const auto v = in.v.to(type), beta = in.beta.to(type).unsqueeze(-1);
  auto kept = in.decay.to(type).exp();
  if (in.begins.defined()) kept = kept.masked_fill(in.begins.unsqueeze(-1), 0);
  auto now = state.defined() ? state.to(type) : no_state(in).flatten(1, 2);
  std::vector<at::Tensor> outs;
  for (std::int64_t i = 0; i < v.size(1); ++i) {
    const auto key = k.select(1, i).unsqueeze(-1);
    now = now * of_each(kept.select(1, i));
    const auto written = (v.select(1, i) - (now * key).sum(-2)) * beta.select(1, i);
    now = now + key * written.unsqueeze(-2);
    outs.push_back((now * q.select(1, i).unsqueeze(-1)).sum(-2));
  }
  return {at::stack(outs, 1).to(in.v.scalar_type()), now.detach()};
}

}  // namespace qwen3_5
