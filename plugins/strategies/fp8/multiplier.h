#pragma once
#include <capstan/strategy.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frozen.h"
#include "quantise_blocks.h"
#include "scaled.h"
#include "sent.h"
#include "stored.h"

namespace fp8 {

/// What a rank's products have counted on its device since the last step: see Rounding::counts.
class Counts {
 public:
  /// [4] int64 on this device. Undefined for meta tensors.
  at::Tensor on(c10::Device device);
  /// Takes the counts, and counting starts again. "fp8_underflow": the share of operands' numbers that are not zero and
  /// become zero; "fp8_nonfinite_rows": the share of operands' rows that are not finite.
  std::vector<capstan::strategy::Figure> take();

 private:
  at::Tensor numbers_;
};

/// Reports them once a step.
class CountsOfSteps : public capstan::strategy::StepHooks {
 public:
  explicit CountsOfSteps(std::shared_ptr<Counts> counts) : counts_(std::move(counts)) {}
  void begin(capstan::strategy::StepContext& step) override { counts_->on(step.device); }
  std::vector<capstan::strategy::Figure> figures() override { return counts_->take(); }

 private:
  std::shared_ptr<Counts> counts_;
};

/// What both sizes of a matrix must be a multiple of, for the GPU's scaled products.
constexpr std::int64_t multiple = quantised_multiple;

/// What shares a scale: a row of an operand, all of it, or 128 neighbours of a row (in weights 128 x 128).
enum class Scaling { row, tensor, block };

/// A layer's products y = x W^T in 8 bits, and those of its backward. What the ports of Linear and Experts call.
///
/// Operands of each product are scaled by their largest magnitudes over what is summed (by row), over all (by tensor)
/// or over a block. Where ranks hold pieces of what shares a scale they take the maximum over all pieces first, so that
/// each multiplies the very numbers that one rank would; blocks are never in pieces.
struct Multiplier {
  Scaling scaling = Scaling::row;
  at::ScalarType gradient = at::kFloat8_e4m3fn;  ///< format of y's gradient
  bool weight_gradient = true;                   ///< in 8 bits too; false: in y's dtype
  bool fast = true;                              ///< not of blocks

  std::string layer;  ///< for labels and messages: "blocks.0/mlp/linear_fc1"
  capstan::nn::WeightPtr weight;
  bool of_experts = false;                      ///< the weight is a matrix for each expert
  std::shared_ptr<capstan::comm::Group> group;  ///< ranks that may hold pieces of the layer; null: this one has all
  const capstan::nn::Unit* unit = nullptr;      ///< in whose forwards and backwards it counts, where these are measured
  std::shared_ptr<Counts> counts;               ///< all layers' operands but the weights; null: nothing is counted
  /// The weight in 8 bits where it is frozen: forward's operand and backward's. Null: not kept. Where it is stored so,
  /// only backward's may be kept.
  std::shared_ptr<Frozen> frozen, frozen_transpose;
  /// Set where the weight is in memory only in 8 bits: then ports get uint8. Null: it is not.
  std::shared_ptr<Stored> stored;
  /// Where a trained weight is gathered in 8 bits: then ports get a weight without memory. Null: it never is.
  std::shared_ptr<const Sent> sent;

  /// What the sizes of W and of its pieces are multiples of.
  std::int64_t sizes_of() const { return scaling == Scaling::block ? quantised_block : multiple; }
  /// The sizes [out, in] of what a rank of the mesh multiplies with, where they are no multiples of sizes_of(). Each
  /// record is looked at by block: a block that two of them share would be another one where these are split.
  std::optional<std::array<std::int64_t, 2>> misfit(const capstan::layout::Mesh& mesh, int rank) const;
  /// x [..., in], W [out, in] -> [..., out], in x's dtype and memory of its own.
  static at::Tensor multiply(const std::shared_ptr<const Multiplier>& self, const at::Tensor& x,
                             const at::Tensor& weight);
  /// Each row of x [R, in] times its expert's matrix of W [E, out, in]: [R, out]. Always by row; the weights' gradient
  /// always in x's dtype.
  static at::Tensor multiply_grouped(const std::shared_ptr<const Multiplier>& self, const at::Tensor& x,
                                     const at::Tensor& weight, const at::Tensor& ends);

  bool cuts_inputs() const;
  bool cuts_outputs() const;
  /// A matrix [..., m, k] and what is multiplied of it: it, or its transpose.
  struct Operand {
    at::Tensor matrix;
    at::ScalarType format = at::kFloat8_e4m3fn;
    bool transposed = false;
    bool cut = false;       ///< ranks hold pieces of each row (of the transpose where that is meant)
    bool rows_cut = false;  ///< … of the other dimension
    bool is_weight = false;
  };
  /// How an operand is rounded, and where it is counted: x and gradients are.
  Rounding rounding(const at::Tensor& of, at::ScalarType format) const;
  /// swiglu(x), and its gradient of x, as an operand of this layer.
  Quantised swiglu(const at::Tensor& x) const;
  Quantised swiglu_backward(const at::Tensor& of_result, const at::Tensor& x) const;
  /// One collective at most. A matrix and then its transpose are found in one go.
  std::vector<Quantised> quantised(const std::vector<Operand>& operands) const;
  /// These, and then the weight or its transpose, which is kept where it is frozen.
  std::vector<Quantised> with_weight(std::vector<Operand> operands, const at::Tensor& of, bool transposed) const;

  Quantised stored_columns(const at::Tensor& of) const;
  std::vector<Quantised> in_blocks(const std::vector<Operand>& operands) const;
  /// a b^T of such operands, the first `rows` rows of it: those of blocks have zeros beyond.
  at::Tensor product_of(const Quantised& a, const Quantised& b, at::ScalarType dtype, std::int64_t rows) const;

  /// In place over the group, by one collective.
  void take_maximum(const std::vector<at::Tensor>& magnitudes) const;
};

}  // namespace fp8
