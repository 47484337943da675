// The gated delta rule in float64 that rounds where the kernels do: between two products, to bfloat16. Against
// float64 without these roundings the kernels deviate by up to 4 % of the largest number of a gradient, because the
// inverse of a chunk's matrix multiplies them where decays are near 1; against this only by what sums in float32 and
// their roundings differ.
#pragma once
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace delta_rounded {

inline at::Tensor rounded(const at::Tensor& x) { return x.to(at::kFloat).to(at::kBFloat16).to(at::kDouble); }
inline at::Tensor column(const at::Tensor& x) { return x.unsqueeze(-1); }

/// q, k, v and the gradient of what comes out [B, S, heads, dim]; decay and beta [B, S, value heads]; begins [B, S], or
/// undefined. All but begins are float64 and hold what the kernels get.
struct Given {
  at::Tensor q, k, v, decay, beta, begins, gradient;
};

/// What comes out, the last state [B, value heads, dim, dim], and the gradients.
struct Made {
  at::Tensor out, last, of_q, of_k, of_v, of_decay, of_beta;
};

class Rule {
 public:
  explicit Rule(const Given& given) : given_(given), heads_(given.v.size(2)), length_(given.v.size(1)) {
    const auto begun = given.begins.defined() ? given.begins.to(at::kDouble) : at::zeros_like(given.decay.select(2, 0));
    q_ = chunks(given.q);
    k_ = chunks(given.k);
    v_ = chunks(given.v);
    gradient_ = chunks(given.gradient);
    beta_ = chunks(given.beta);
    inverse_q_ = (q_.square().sum(-1) + epsilon).rsqrt() / std::sqrt(static_cast<double>(v_.size(-1)));
    inverse_k_ = (k_.square().sum(-1) + epsilon).rsqrt();
    factors(chunks(given.decay * (1 - begun).unsqueeze(-1)),
            chunks(begun.unsqueeze(-1).expand_as(given.decay)).cumsum(-1));
    products();
  }

  Made made() {
    scan();
    auto out = column(start_ * inverse_q_) * at::matmul(q_, states_) + at::matmul(p_, written_);
    scan_back();
    gradients();
    const auto begins = given_.begins.defined() ? given_.begins.unsqueeze(-1) : at::zeros({1}, at::kBool);
    const auto scale = 1 / std::sqrt(static_cast<double>(v_.size(-1)));
    return {rounded(tokens(out)),
            last_,
            rounded(through_unit(of_key_heads(of_q_), given_.q, scale)),
            rounded(through_unit(of_key_heads(of_k_), given_.k, 1)),
            rounded(tokens(of_v_)),
            tokens(of_decay_).masked_fill(begins, 0),
            tokens(of_beta_)};
  }

 private:
  static constexpr std::int64_t chunk = 64;
  static constexpr double epsilon = 1e-6;

  // [B, S, heads, ...] -> [B, value heads, chunks, chunk, ...], zeros after the last token.
  at::Tensor chunks(const at::Tensor& x) const {
    auto shape = x.sizes().vec();
    shape[1] = (chunk - length_ % chunk) % chunk;
    const auto whole = at::cat({x, at::zeros(shape, x.options())}, 1).unflatten(1, {-1, chunk}).movedim(3, 1);
    return whole.repeat_interleave(heads_ / x.size(2), 1);
  }
  at::Tensor tokens(const at::Tensor& x) const { return x.movedim(1, 3).flatten(1, 2).narrow(1, 0, length_); }
  at::Tensor of_key_heads(const at::Tensor& x) const { return tokens(x).unflatten(2, {given_.k.size(2), -1}).sum(3); }
  static at::Tensor through_unit(const at::Tensor& gradient, const at::Tensor& x, double scale) {
    const auto inverse = (x.square().sum(-1, true) + epsilon).rsqrt(), unit = x * inverse;
    return inverse * scale * (gradient - unit * (gradient * unit).sum(-1, true));
  }

  void factors(const at::Tensor& decay, const at::Tensor& begun) {
    const auto sum = decay.cumsum(-1);
    const auto last = [](const at::Tensor& x) { return x.narrow(-1, chunk - 1, 1); };
    const auto hidden = at::ones({chunk, chunk}, at::kBool).triu(1).logical_or(column(begun).ne(begun.unsqueeze(-2)));
    between_ = (column(sum) - sum.unsqueeze(-2)).masked_fill(hidden, -std::numeric_limits<double>::infinity()).exp();
    start_ = sum.exp() * begun.eq(0);
    end_ = (last(sum) - sum).exp() * begun.eq(last(begun));
    through_ = last(start_);
  }

  void products() {
    kk_ = at::matmul(k_, k_.mT());
    qk_ = at::matmul(q_, k_.mT());
    by_kk_ = column(inverse_k_) * inverse_k_.unsqueeze(-2);
    by_qk_ = column(inverse_q_) * inverse_k_.unsqueeze(-2);
    const auto a = (column(beta_) * by_kk_ * kk_ * between_).tril(-1);
    const auto one = at::eye(chunk, a.options()).expand_as(a);
    inverse_ = at::linalg_solve_triangular(a, one, /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
    u_ = rounded(at::matmul(rounded(inverse_ * beta_.unsqueeze(-2)), v_));
    w_ = rounded(at::matmul(rounded(inverse_ * (beta_ * start_ * inverse_k_).unsqueeze(-2)), k_));
    p_ = rounded(by_qk_ * qk_ * between_);
  }

  void scan() {
    auto state = at::zeros({v_.size(0), heads_, v_.size(-1), v_.size(-1)}, v_.options());
    std::vector<at::Tensor> states, written;
    for (std::int64_t i = 0; i < v_.size(2); ++i) {
      states.push_back(rounded(state));
      const auto of_chunk = u_.select(2, i) - at::matmul(w_.select(2, i), states.back());
      written.push_back(rounded(of_chunk));
      const auto left = rounded(of_chunk * column((end_ * inverse_k_).select(2, i)));
      state = column(through_.select(2, i)) * state + at::matmul(k_.select(2, i).mT(), left);
    }
    last_ = state;
    states_ = at::stack(states, 2);
    written_ = at::stack(written, 2);
  }

  void scan_back() {
    const auto own = rounded(at::matmul(p_.mT(), gradient_));
    auto state = at::zeros_like(states_.select(2, 0));  // its gradient
    std::vector<at::Tensor> after, written;
    for (auto i = v_.size(2) - 1; i >= 0; --i) {
      after.insert(after.begin(), rounded(state));
      const auto by = column((end_ * inverse_k_).select(2, i));
      written.insert(written.begin(), rounded(own.select(2, i) + by * at::matmul(k_.select(2, i), after.front())));
      const auto read = rounded(gradient_.select(2, i) * column((start_ * inverse_q_).select(2, i)));
      state = column(through_.select(2, i)) * state + at::matmul(q_.select(2, i).mT(), read) -
              at::matmul(w_.select(2, i).mT(), written.front());
    }
    after_ = at::stack(after, 2);
    of_written_ = at::stack(written, 2);
  }

  void gradients() {
    const auto exact_rows = at::matmul(rounded(inverse_).mT(), of_written_), rows = rounded(exact_rows);
    of_v_ = column(beta_) * exact_rows;
    const auto of_a = -at::matmul(rows, written_.mT()) * between_.tril(-1) * by_kk_;
    const auto of_qk = at::matmul(gradient_, written_.mT()) * between_ * by_qk_;
    const auto pairs = of_qk * qk_ + of_a * kk_ * column(beta_);
    const auto of_kk = rounded(of_a * column(beta_)), rounded_qk = rounded(of_qk);
    const auto of_q_start = column(start_) * at::matmul(gradient_, states_.mT());
    const auto of_key = column(start_) * at::matmul(rows, states_.mT());
    const auto of_k_end = column(end_) * at::matmul(written_, after_.mT());
    of_q_ = at::matmul(rounded_qk, k_) / column(inverse_q_) + of_q_start;
    of_k_ = (at::matmul(rounded_qk.mT(), q_) + at::matmul(of_kk + of_kk.mT(), k_)) / column(inverse_k_) -
            column(beta_) * of_key + of_k_end;
    const auto q = q_ * column(inverse_q_), k = k_ * column(inverse_k_);
    of_beta_ = (exact_rows * v_).sum(-1) + (of_a * kk_).sum(-1) - (of_key * k).sum(-1);
    auto decay = pairs.sum(-1) - pairs.sum(-2) + (of_q_start * q - (column(beta_) * of_key + of_k_end) * k).sum(-1);
    const auto ends = (of_k_end * k).sum(at::IntArrayRef{-1, -2}),
               states = (states_ * after_).sum(at::IntArrayRef{-1, -2});
    decay.select(-1, chunk - 1).add_(ends + through_.squeeze(-1) * states);
    of_decay_ = decay.flip(-1).cumsum(-1).flip(-1);
  }

  Given given_;
  std::int64_t heads_, length_;
  at::Tensor q_, k_, v_, gradient_, beta_, inverse_q_, inverse_k_;
  at::Tensor between_, start_, end_, through_;
  at::Tensor kk_, qk_, by_kk_, by_qk_, inverse_, u_, w_, p_;
  at::Tensor states_, last_, written_, after_, of_written_;
  at::Tensor of_q_, of_k_, of_v_, of_decay_, of_beta_;
};

}  // namespace delta_rounded
