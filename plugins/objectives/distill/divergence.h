#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/ops/cross_entropy.h>

#include <cstdint>
#include <optional>
#include <variant>

namespace distill {

/// What a teacher says of N rows: its own states before its head [N, its h] and its head's matrix [V, its h]. Neither
/// gets a gradient.
struct TeacherStates {
  at::Tensor hidden;
  at::Tensor weight;
  std::optional<double> cap = {};  ///< of its logits, as ops::HeadProducts has one
};

/// Or only of each row's k words: their ids [N, k] int64, without duplicates, and the logarithms [N, k] of their
/// probabilities at the same temperature, in float32 or float64.
struct TeacherWords {
  /// What becomes of all other words.
  enum class Rest {
    tail,          ///< they are one word, in the teacher and in the student
    renormalised,  ///< the teacher's probabilities are divided by their sum, so all others have none
  };
  at::Tensor ids;
  at::Tensor log_probabilities;
  Rest rest = Rest::tail;
};
using Teacher = std::variant<TeacherStates, TeacherWords>;

struct DivergenceSettings {
  double temperature = 1;       ///< above 0; logits of student and teacher are divided by it
  std::int64_t chunk_rows = 1;  ///< at most as many rows of logits exist at a time, thrice with TeacherStates
  std::optional<capstan::ops::VocabularyPart> part =
      {};                          ///< where the matrices hold only this rank's rows, the same for both
  std::optional<double> cap = {};  ///< of the logits of `hidden` and `weight`, as ops::HeadProducts has one
};

/// The sum over the rows that have a label of KL(teacher || student) = Σ_v p(v) (log p(v) - log q(v)), where q is
/// softmax(hidden weight^T / temperature) and p the teacher's, without ever holding all logits. `labels` only says
/// which rows count, those that are not ops::ignored_label. Inputs, results, gradients and numbers are otherwise as in
/// chunked_linear_cross_entropy and split_linear_cross_entropy. A caller who wants gradients of one size at all
/// temperatures multiplies by temperature² (Hinton et al. 2015).
at::Tensor chunked_linear_divergence(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                     const TeacherStates& teacher, const DivergenceSettings& settings);
at::Tensor chunked_linear_divergence(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                     const TeacherWords& teacher, const DivergenceSettings& settings);

/// The k likeliest words of each row, the likeliest first, and the logarithms of their probabilities
/// softmax(hidden weight^T / temperature) in the sums' dtype, without ever holding all logits; the same on all ranks of
/// a split vocabulary. k is at most the number of words. Without gradient.
TeacherWords likeliest_words(const at::Tensor& hidden, const at::Tensor& weight, std::int64_t k,
                             const DivergenceSettings& settings);

}  // namespace distill
