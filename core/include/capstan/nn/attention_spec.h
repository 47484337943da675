#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <optional>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// The heads of a layer of attention, or those that a rank has of them.
struct AttentionHeads {
  std::int64_t queries = 0;
  std::int64_t keys = 0;       ///< key heads, and as many value heads; divides queries
  std::int64_t dim = 0;        ///< numbers of a query and of a key
  std::int64_t value_dim = 0;  ///< numbers of a value; 0: as many as of a key

  std::int64_t values() const { return value_dim > 0 ? value_dim : dim; }
};

/// What a call may want besides softmax(scale · q k) v. A row of the table that does not name it never gets such a
/// call.
enum class AttentionFeature : unsigned { window, soft_cap, linear_biases, value_width, dropout };

/// What a row that lacks it is said to lack.
struct AttentionFeatureWord {
  AttentionFeature feature;
  std::string_view word;
};
inline constexpr AttentionFeatureWord attention_feature_words[] = {
    {AttentionFeature::window, "a window"},
    {AttentionFeature::soft_cap, "a soft cap"},
    {AttentionFeature::linear_biases, "linear biases"},
    {AttentionFeature::value_width, "values of another width than keys"},
    {AttentionFeature::dropout, "dropout on probabilities"},
};

/// What a family's causal attention is, as data: out = softmax(mask(cap(scale · q k) + biases)) v. A row of the table
/// of kernels (attention_table.h) says which of it it computes; the plain row computes all. Each field acts alone and
/// with any other.
struct AttentionSpec {
  std::optional<double> scale = {};         ///< factor of q k; 1 / sqrt(head dim) when not set
  std::optional<std::int64_t> window = {};  ///< a token sees this many positions, its own included; all when not set
  /// Scores become cap · tanh(score / cap) before biases and mask (Gemma 2); they stay as they are when not set.
  std::optional<double> soft_cap = {};
  bool sinks = false;  ///< a learned logit a head joins the softmax's denominator, without a value (gpt-oss)
  /// Linear biases (Press et al. 2021): slope · (key - query) is added to each head's scores. Softmax does not see what
  /// is added to a whole row, so rows may count keys from elsewhere where there are no sinks.
  bool alibi = false;
  AttentionHeads heads = {};  ///< all that the layer has

  /// Whether a field asks for it.
  bool wants(AttentionFeature feature) const {
    return (feature == AttentionFeature::window && window) || (feature == AttentionFeature::soft_cap && soft_cap) ||
           (feature == AttentionFeature::linear_biases && alibi);
  }
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
