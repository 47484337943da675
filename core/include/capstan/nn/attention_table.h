#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/attention_spec.h>
#include <capstan/nn/batch.h>
#include <capstan/nn/layers.h>
#include <capstan/nn/rotary.h>

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// Why a row of a table does not take a call.
struct WhyNot {
  std::string_view what;   ///< "a soft cap": what it cannot compute, or the calls that it is for
  bool is_lacking = true;  ///< false: it is for calls of another kind, such as packed rows, which is no loss here
};
/// Nothing: the row takes the call.
using Verdict = std::optional<WhyNot>;

/// One call of attention's core. Rows that are asked before a model has memory get tensors on the meta device. What it
/// points to is the caller's.
struct AttentionCall {
  const AttentionSpec* spec = nullptr;
  at::Tensor q;            ///< [B, heads, S, dim]; where ranks share columns (Batch::part), S are this rank's
  at::Tensor k;            ///< [B, key heads, all columns, dim]
  at::Tensor v;            ///< [B, key heads, all columns, value dim]
  at::Tensor slopes = {};  ///< [heads], float32 (float64 for float64): linear biases; undefined where the spec has none
  at::Tensor sinks = {};   ///< [heads]: the heads' sinks; undefined where the spec has none
  /// [B, S, heads · 3 · dim], contiguous: the product that q, k and v are views of, the first head's q, k and v, then
  /// the second's, …; undefined where norms or positions changed them, or ranks share columns.
  at::Tensor fused = {};
  const Dropout* dropout = nullptr;  ///< acts on the probabilities; null: none acts
  const Batch* batch = nullptr;
  /// Null, or filled: queries see all positions up to their own in the cache, to which the call's keys and values are
  /// added under `layer`.
  KVCache* cache = nullptr;
  std::size_t layer = 0;
  /// The logarithm of the softmax's sum is wanted, with a gradient.
  bool needs_log_sum_exp = false;

  double scale() const { return spec->scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(-1)))); }
  bool wants(AttentionFeature feature) const {
    return spec->wants(feature) || (feature == AttentionFeature::value_width && v.size(-1) != k.size(-1)) ||
           (feature == AttentionFeature::dropout && dropout != nullptr);
  }
  std::int64_t groups() const { return q.size(1) / k.size(1); }
  /// The window, where a row of this many positions is longer.
  std::optional<std::int64_t> window_within(std::int64_t length) const {
    return spec->window.value_or(length) < length ? spec->window : std::nullopt;
  }
};

/// What a row computes.
struct AttentionResult {
  at::Tensor out;               ///< [B, heads, S, value dim]
  at::Tensor log_sum_exp = {};  ///< [B, heads, S], float32 (float64 for float64), where the call needs it
};

/// Whether a row can give the logarithm of its softmax's sum, from which what comes after it is computed (sinks).
enum class LogSumExp { none, without_gradient, with_gradient };

/// A row of the table of kernels that compute attention.
struct AttentionRow {
  std::string name;                   ///< "SDPA": for what people read
  std::vector<AttentionFeature> has;  ///< what a call may want
  /// Asked in each call, before run(), where it has what the call wants or not; must answer alike in a unit's forward
  /// and where that is recomputed. A call with Batch::documents is taken only by a row that lets packed samples attend
  /// to themselves where they stand.
  std::function<Verdict(const AttentionCall&)> takes;
  std::function<AttentionResult(const AttentionCall&)> run;
  LogSumExp log_sum_exp = LogSumExp::none;
  /// What is wrapped around kernels (AttentionTable::wrap) is around its run() too. False where run() calls several
  /// kernels on parts, whose results together are larger than what is given.
  bool is_wrapped = true;
  bool has_sinks = false;  ///< run() computes the call's sinks, so that it needs to give no logarithm
};

/// The rows that may serve a layer, in order of preference; the first that takes a call computes it. Rows that a model
/// or a strategy added come first, in the order in which they were added. Core's follow: packed samples in segments (on
/// GPUs whole rows with sinks as well), SDPA, blocks of a window, SDPA with a mask, tokens that follow a cache, and the
/// plain row, which takes everything in the input's dtype: its float64 run is the reference of all others.
class AttentionTable {
 public:
  /// A model adds rows when it has made the layer, a strategy while it places the unit; not later.
  void add(AttentionRow row) { added_.push_back(std::move(row)); }

  /// Runs what a strategy has put around whichever row is chosen: in a unit that runs twice, with what both runs share.
  using Wrapper = std::function<at::Tensor(const std::function<at::Tensor()>& run, RecomputeContext&)>;
  /// Throws Error that names both where one is there.
  void wrap(const std::string& owner, Wrapper wrapper);

  /// [B, heads, S, value dim]. Slopes and sinks are those of all heads that the rank has; of these the batch's `heads`
  /// are taken. A cache that is not filled gets the keys and values. Packed samples that no row takes where they stand
  /// are taken apart, into a row each. Sinks that a row does not compute are added here, and only rows that give what
  /// that needs are chosen.
  at::Tensor attend(AttentionCall call) const;

  /// The first row that takes the call; null: packed samples are taken apart first. attend() asks it.
  const AttentionRow* row_for(const AttentionCall& call) const;
  /// Why the rows before that one, with their names, do not take it.
  std::vector<std::pair<std::string, WhyNot>> passed_over(const AttentionCall& call) const;
  /// Whether a row takes the call: its own answer, then what it has.
  static Verdict verdict(const AttentionRow& row, const AttentionCall& call);
  /// Core's row of this name; asserts that there is one.
  static const AttentionRow& row(std::string_view name);

 private:
  at::Tensor serve(const AttentionCall& call) const;
  at::Tensor serve_apart(const AttentionCall& call) const;
  std::vector<AttentionRow> added_;
  std::string wrapped_by_;
  Wrapper wrapper_;
};

/// One call of core's rows, for a model that has no nn::Attention.
at::Tensor attend(const AttentionCall& call);

/// How the features of q, k and v lie in their product.
enum class HeadOrder {
  by_kind,  ///< all of q, all of k, all of v
  by_head   ///< the first head's q, k and v, then the second's, … (as many key heads as query heads)
};

/// Queries grow with their position, so that attention stays sharp in long rows: a query at position p of its document
/// is multiplied by 1 + beta · ln(1 + floor(p / length)) (Llama 4, Ministral 3).
struct QueryScaling {
  double beta = 0;
  std::int64_t length = 1;
};

/// What q, k and v are made of.
struct HeadsCall {
  at::Tensor fused;  ///< [B, S, features]: this rank's product, contiguous
  AttentionHeads own;
  HeadOrder order = HeadOrder::by_kind;
  const RmsNorm* query_norm = nullptr;  ///< null: none
  const RmsNorm* key_norm = nullptr;
  const Rotary* rotary = nullptr;               ///< null: no positions
  const QueryScaling* query_scaling = nullptr;  ///< null: none
  bool keys_are_values = false;                 ///< as Attention::Kind's
  std::optional<double> value_norm = {};        ///< its epsilon; v is normed by head, without a weight
  const Batch* batch = nullptr;
};

/// A row of the table that makes q, k and v [B, S, heads, dim] of the product.
struct HeadsRow {
  std::string name;
  std::function<Verdict(const HeadsCall&)> takes;  ///< as AttentionRow's
  std::function<ops::RotaryHeads(const HeadsCall&)> run;
};

/// Rows that were added come first; then q and k that turn in the product's memory, and norms and rotation one after
/// the other, which takes everything.
class HeadsTable {
 public:
  /// As AttentionTable's.
  void add(HeadsRow row) { added_.push_back(std::move(row)); }
  /// The first row that takes the call; it is never null.
  const HeadsRow* row_for(const HeadsCall& call) const;

 private:
  std::vector<HeadsRow> added_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
