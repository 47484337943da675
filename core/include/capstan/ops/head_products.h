#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <functional>
#include <optional>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// The products of a head, hidden [N, h] and weight [V, h], whose logits exist only by the chunk of rows: the logits,
/// and the gradients that they have. Numbers are as capstan/ops/cross_entropy.h says.
class HeadProducts {
 public:
  struct Wanted {
    bool hidden_gradient = false;
    bool weight_gradient = false;
  };
  /// Each row's factor of its gradients [N, 1], in the sums' dtype. The weight's has a scale of its own, which keeps it
  /// near 1: it acts on states, and the products are rounded to 16 bits.
  struct Factors {
    at::Tensor of_hidden;
    at::Tensor of_weight;
  };

  /// `cap`: logits are cap · tanh(product / cap).
  HeadProducts(const at::Tensor& hidden, const at::Tensor& weight, const Wanted& wanted,
               std::optional<double> cap = {});

  /// The logits of rows [begin, begin + rows), in the sums' dtype.
  at::Tensor logits(std::int64_t begin, std::int64_t rows);
  /// Adds what the gradients of rows of logits from `begin` on give: these times scale(), in the dtype of hidden.
  /// Chunks come in ascending order. With a cap they are the rows that logits() was last asked for.
  void add_gradients(const at::Tensor& grad_logits, std::int64_t begin);
  void set_factors(const Factors& factors) { factors_ = factors; }

  std::int64_t rows() const { return hidden_.size(0); }
  std::int64_t words() const { return weight_.size(0); }
  bool wants_gradients() const { return grad_hidden_.defined() || grad_weight_.defined(); }
  at::ScalarType type() const { return hidden_.scalar_type(); }
  at::ScalarType sum_type() const { return sum_type_; }
  double scale() const { return scale_; }
  /// What sums and statistics of rows are made with.
  at::TensorOptions numbers() const { return hidden_.options().dtype(sum_type_).requires_grad(std::nullopt); }
  /// A GPU makes fused passes over the logits; the CPU's plain ones are their reference.
  bool is_fused() const { return !hidden_.is_cpu() && sum_type_ == at::kFloat; }
  const at::Tensor& grad_hidden() const { return grad_hidden_; }
  const at::Tensor& grad_weight() const { return grad_weight_; }

 private:
  at::Tensor operand(const at::Tensor& x) const;
  bool is_widening() const;
  at::Tensor product(const at::Tensor& a, const at::Tensor& b) const;
  void add_weight_gradient(const at::Tensor& grad_logits, std::int64_t begin);

  at::ScalarType sum_type_;
  double scale_;
  at::Tensor hidden_, weight_, grad_hidden_, grad_weight_;
  Factors factors_;  ///< undefined: 1
  std::optional<double> cap_;
  at::Tensor slopes_;  ///< the last logits' by their product, where there is a cap and a gradient is wanted
};

/// The rows whose logits must be computed. Counting the targets would wait for a GPU, but costs nothing on CPU: so only
/// the CPU skips rows without a target.
class TargetRows {
 public:
  TargetRows(const at::Tensor& hidden, const at::Tensor& labels);
  const at::Tensor& hidden() const { return hidden_; }
  const at::Tensor& labels() const { return labels_; }
  const at::Tensor& rows() const { return rows_; }  ///< undefined: all are
  /// The given rows of `x`; all if `rows` is undefined.
  static at::Tensor some(const at::Tensor& x, const at::Tensor& rows);
  /// The inverse: [count, ...] with `x` at these rows and zeros elsewhere. An undefined x stays so.
  static at::Tensor among(const at::Tensor& x, const at::Tensor& rows, std::int64_t count);

 private:
  at::Tensor rows_, hidden_, labels_;
};

/// Asserts the shapes and dtypes that the losses over a vocabulary promise to take.
void check_loss_inputs(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                       std::int64_t chunk_rows);

/// The loss (0-dim) that `loss_of` computes without autograd, together with the gradients that are wanted, from the
/// rows that must be and their products with the weight: backward only multiplies the gradients by the incoming one.
at::Tensor loss_of_head(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                        const std::function<at::Tensor(const TargetRows&, HeadProducts&)>& loss_of,
                        std::optional<double> cap = {});

}  // namespace ops
CAPSTAN_END_NAMESPACE
