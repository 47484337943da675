#include <capstan/base/error.h>
#include <capstan/nn/attention.h>
#include <capstan/ops/bias_columns.h>
#include <capstan/ops/segment_attention.h>

#include <cmath>
#include <limits>
#include <utility>

#include "ops/decode_attention.h"

namespace capstan::nn {
namespace {

at::Tensor causal_mask(const at::Tensor& q, const at::Tensor& k, std::optional<std::int64_t> window = {}) {
  const auto past = at::ones({q.size(2), k.size(2)}, q.options().dtype(at::kBool)).tril();
  return window ? past.triu(1 - *window) : past;
}

double scale_of(const at::Tensor& q) { return 1.0 / std::sqrt(static_cast<double>(q.size(-1))); }

// What is added to the scores: a bias [B or 1, heads, 1, keys] or nothing, where keys are seen, and what q k is
// multiplied by.
struct Scores {
  at::Tensor mask;
  at::Tensor bias;
  double scale;
};

at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Scores& add,
                           const Dropout* dropout, const Batch& batch) {
  const auto groups = q.size(1) / k.size(1);
  const auto keys = groups == 1 ? k : k.repeat_interleave(groups, 1);
  const auto values = groups == 1 ? v : v.repeat_interleave(groups, 1);
  auto scores = at::matmul(q * add.scale, keys.transpose(-2, -1));
  if (add.bias.defined()) scores = scores + add.bias;
  scores = scores.masked_fill(add.mask.logical_not(), -std::numeric_limits<double>::infinity());
  auto probabilities = at::softmax(scores, -1).to(q.scalar_type());
  if (dropout) probabilities = dropout->on_attention(probabilities, batch);
  return at::matmul(probabilities, values);
}

// Packed rows: attends with every sample in a row of its own, where the plain causal kernels do, and puts the results
// back. Costs a copy each way, where a block-diagonal mask would cost the square of the row and the fused kernels.
template <class Attend>
at::Tensor attend_apart(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Batch& batch,
                        const Attend& attend) {
  const auto& documents = *batch.documents;
  const auto apart = [&](const at::Tensor& heads) { return documents.apart(heads.transpose(1, 2)).transpose(1, 2); };
  const auto y = attend(batch.apart(), apart(q), apart(k), apart(v));
  return documents.together(y.transpose(1, 2), q.size(0), q.size(2)).transpose(1, 2);
}

// Does one kernel attend within each sample of packed rows, to heads of `columns` columns? Else they are taken apart.
bool takes_segments(const at::Tensor& like, std::int64_t columns, const Dropout& dropout, const Batch& batch) {
  if (!batch.documents || !batch.documents->bounds.defined()) return false;
  return !(batch.training && dropout.probability() > 0) && ops::has_segment_attention(like, columns);
}

// Where samples stand in packed rows: what is between them attends to itself, and nothing reads that.
at::Tensor attend_in_segments(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Batch& batch,
                              const AttentionScores& scores) {
  const auto& documents = *batch.documents;
  ops::SegmentAttention how{documents.bounds, documents.longest, scores.scale.value_or(scale_of(q)), {}};
  if (scores.window.value_or(how.longest) < how.longest) how.window = scores.window;
  const auto tokens = [](const at::Tensor& heads) { return heads.transpose(1, 2).flatten(0, 1); };
  const auto y = ops::segment_attention(tokens(q), tokens(k), tokens(v), how);
  return y.unflatten(0, {q.size(0), q.size(2)}).transpose(1, 2);
}

// The kernels that take a mask want as many key heads as query heads.
at::Tensor masked_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                            double scale) {
  const auto groups = q.size(1) / k.size(1);
  const auto all = [&](const at::Tensor& heads) { return groups == 1 ? heads : heads.repeat_interleave(groups, 1); };
  return at::scaled_dot_product_attention(q, all(k), all(v), mask, 0.0, /*is_causal=*/false, scale);
}

// [B or 1, 1, own columns, keys]: which of the first keys of whole rows are seen from some of this rank's columns.
at::Tensor visible_from(const at::Tensor& own_columns, Batch all, std::int64_t keys,
                        std::optional<std::int64_t> window) {
  const auto key = at::arange(keys, own_columns.options()), query = own_columns.view({1, 1, -1, 1});
  auto past = window ? (key <= query).bitwise_and(key > query - *window) : key <= query;
  if (!all.documents) return past;
  all.loss_rows = at::Tensor();  // of all positions; padding, which no token before it sees, is said to be the first's
  const auto sequences = all.label_sequences().view_as(all.tokens);
  const auto own = sequences.index_select(1, own_columns).unsqueeze(-1);
  return past.bitwise_and(own.eq(sequences.narrow(1, 0, keys).unsqueeze(1)).unsqueeze(1));
}

// This rank's queries and all keys: each range of queries attends to the keys up to its end. A range may be empty, and
// is called for too, so that keys and values have a gradient on each rank.
template <class Attend>
at::Tensor attend_from_own(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Batch& batch,
                           std::optional<std::int64_t> window, const Attend& attend) {
  std::vector<at::Tensor> pieces;
  std::int64_t first = 0;
  for (const auto& [begin, length] : batch.part->own) {
    const auto keys = begin + length;
    const auto mask = visible_from(batch.part->columns.narrow(0, first, length), *batch.part->whole, keys, window);
    pieces.push_back(attend(q.narrow(2, first, length), k.narrow(2, 0, keys), v.narrow(2, 0, keys), mask));
    first += length;
  }
  return at::cat(pieces, 2);
}

// Takes one window's worth of queries after the other, each with its own keys and those of the one before: the cost
// grows with the window, not with the row.
at::Tensor attention_in_blocks(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, std::int64_t window,
                               double scale) {
  const auto rows = q.size(0), length = q.size(2), blocks = (length + window - 1) / window;
  const auto cut = [&](const at::Tensor& heads) {
    return at::constant_pad_nd(heads, {0, 0, 0, blocks * window - length}).unflatten(2, {blocks, window});
  };
  const auto first = [](const at::Tensor& cut_heads) { return cut_heads.select(2, 0); };
  const auto later = [&](const at::Tensor& cut_heads) { return cut_heads.narrow(2, 1, blocks - 1); };
  const auto with_before = [&](const at::Tensor& cut_heads) {
    return at::cat({cut_heads.narrow(2, 0, blocks - 1), later(cut_heads)}, 3);
  };
  const auto as_rows = [](const at::Tensor& cut_heads) { return cut_heads.transpose(1, 2).flatten(0, 1); };
  const auto queries = cut(q), keys = cut(k), values = cut(v);
  const bool grouped = q.size(1) != k.size(1);
  const auto begin = at::scaled_dot_product_attention(first(queries), first(keys), first(values), {}, 0.0,
                                                      /*is_causal=*/true, scale, grouped);
  // Query i of a block is at window + i of its keys, and sees those after i up to its own.
  const auto mask = at::ones({window, 2 * window}, q.options().dtype(at::kBool)).tril(window).triu(1);
  const auto rest =
      masked_attention(as_rows(later(queries)), as_rows(with_before(keys)), as_rows(with_before(values)), mask, scale);
  const auto all = at::cat({begin.unsqueeze(1), rest.unflatten(0, {rows, blocks - 1})}, 1);
  return all.transpose(1, 2).flatten(2, 3).narrow(2, 0, length);
}

// Attends to the layer's keys and values so far, to which what attends adds those of the batch's tokens.
at::Tensor attend_to(KVCache& cache, std::size_t layer, ops::DecodeAttention how) {
  const auto& [keys, values] =
      cache.put(layer, how.k.narrow(2, 0, 0), how.v.narrow(2, 0, 0), how.positions.narrow(1, 0, 0));
  how.keys = keys;
  how.values = values;
  return ops::decode_attention(how);
}

// transformers' build_alibi_tensor, operation by operation, so that float32 gives the same bits: 2^(-8 i / n) for the
// largest power of two n of the heads; the others take every second one of the rule for 2 n.
at::Tensor slopes_in(at::ScalarType type, std::int64_t heads) {
  const auto powers_of = [&](double count, std::int64_t first, std::int64_t end, std::int64_t step) {
    const auto base = at::full({}, std::exp2(-std::exp2(3 - std::log2(count))), at::TensorOptions(type));
    return at::pow(base, at::arange(first, end, step, at::TensorOptions(at::kInt)));
  };
  std::int64_t whole = 1;
  while (2 * whole <= heads) whole *= 2;
  auto slopes = powers_of(static_cast<double>(whole), 1, whole + 1, 1);
  if (whole == heads) return slopes;
  return at::cat({slopes, powers_of(2.0 * static_cast<double>(whole), 1, 1 + 2 * (heads - whole), 2)});
}

// One vector for every head acts on whatever heads a rank has; one of all heads' features is split with them.
void make_norm(std::optional<RmsNorm>& norm, Layer& parent, const char* name, const WeightPtr& weight,
               const Attention::Kind& kind) {
  if (!weight) return;
  const auto use = weight->numel() == kind.heads.dim ? Use::heads : Use::split;
  norm.emplace(parent, name, weight, kind.norm_epsilon, use);
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Dropout& dropout,
                            const Batch& batch, KVCache* cache, std::size_t layer, const AttentionScores& scores) {
  if (batch.part) {
    CAPSTAN_ASSERT(!cache && !(batch.training && dropout.probability() > 0));
    return attend_from_own(q, k, v, batch, scores.window, [&](const auto&... one) {
      return masked_attention(one..., scores.scale.value_or(scale_of(q)));
    });
  }
  if (batch.documents) {
    CAPSTAN_ASSERT(!cache);
    if (takes_segments(q, q.size(-1), dropout, batch)) return attend_in_segments(q, k, v, batch, scores);
    return attend_apart(q, k, v, batch, [&](const Batch& own, const auto&... heads) {
      return causal_attention(heads..., dropout, own, nullptr, layer, scores);
    });
  }
  const auto scale = scores.scale.value_or(scale_of(q));
  if (cache && cache->is_filled()) {
    const auto seen = scores.window.value_or(cache->capacity());
    return attend_to(*cache, layer, {q, k, v, {}, {}, batch.positions, {}, scale, seen});
  }
  if (cache) cache->put(layer, k, v, batch.positions);
  // A row that is no longer than the window takes the plain causal kernel.
  std::optional<std::int64_t> window;
  if (scores.window.value_or(q.size(2)) < q.size(2)) window = scores.window;
  if (batch.training && dropout.probability() > 0)
    return plain_attention(q, k, v, {causal_mask(q, k, window), {}, scale}, &dropout, batch);
  if (window && q.size(2) >= 2 * *window) return attention_in_blocks(q, k, v, *window, scale);
  if (window) return masked_attention(q, k, v, causal_mask(q, k, window), scale);
  const bool grouped = q.size(1) != k.size(1);
  return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true, scores.scale, grouped);
}

Alibi::Alibi(Layer& parent, std::int64_t heads)
    : Layer(parent, "alibi"), single_(slopes_in(at::kFloat, heads)), exact_(slopes_in(at::kDouble, heads)) {}

Alibi::~Alibi() = default;

at::Tensor Alibi::slopes(const at::Tensor& like) const {
  const auto& all = like.scalar_type() == at::kDouble ? exact_ : single_;
  if (!on_device_.defined() || on_device_.device() != like.device() || on_device_.scalar_type() != all.scalar_type())
    on_device_ = all.to(like.device());
  return own_heads ? own_heads(on_device_) : on_device_;
}

at::Tensor Alibi::attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Dropout& dropout,
                            const Batch& batch, KVCache* cache, std::size_t layer) const {
  if (batch.part) return attention_of_own_columns(q, k, v, batch);
  const bool in_segments = takes_segments(q, ops::bias_columns(q.size(-1)), dropout, batch);
  if (batch.documents && !in_segments) {
    CAPSTAN_ASSERT(!cache);
    return attend_apart(q, k, v, batch, [&](const Batch& own, const auto&... heads) {
      return attention(heads..., dropout, own, nullptr, layer);
    });
  }
  const auto own = batch.heads ? slopes(q).narrow(0, batch.heads->first, q.size(1)) : slopes(q);
  CAPSTAN_ASSERT(own.size(0) == q.size(1));
  if (cache && cache->is_filled())
    return attend_to(*cache, layer, {q, k, v, {}, {}, batch.positions, own, scale_of(q), cache->capacity()});
  if (cache) cache->put(layer, k, v, batch.positions);
  const auto slope = own.view({1, -1, 1});
  // The last key's bias is about 0, so that the largest numbers of the softmax are small.
  const auto bias = slope * (batch.positions - (q.size(2) - 1)).unsqueeze(1);
  const bool drops = batch.training && dropout.probability() > 0;
  if (drops || q.is_cpu()) {
    const Scores add{causal_mask(q, k), bias.unsqueeze(2), scale_of(q)};
    return plain_attention(q, k, v, add, drops ? &dropout : nullptr, batch);
  }
  const auto wide = ops::with_bias_columns(q, k, bias, scale_of(q));
  if (in_segments) return attend_in_segments(wide.q, wide.k, v, batch, {scale_of(q), {}});
  return at::scaled_dot_product_attention(wide.q, wide.k, v, {}, 0.0, /*is_causal=*/true, scale_of(q));
}

// Keys of other sequences than a query's have biases of their own, which the mask hides.
at::Tensor Alibi::attention_of_own_columns(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                           const Batch& batch) const {
  const auto& positions = batch.part->whole->positions;
  const auto bias = slopes(q).view({1, -1, 1}) * (positions - (positions.size(1) - 1)).unsqueeze(1);
  return attend_from_own(q, k, v, batch, {},
                         [&](const auto& some, const auto& keys, const auto& values, const auto& mask) {
                           const Scores add{mask, bias.narrow(2, 0, keys.size(2)).unsqueeze(2), scale_of(q)};
                           return plain_attention(some, keys, values, add, nullptr, batch);
                         });
}

Attention::Attention(Layer& parent, Kind kind, Weights weights)
    : Layer(parent, "attention"),
      kind_(std::move(kind)),
      qkv_(*this, "linear_qkv", WeightSplit::columns, std::move(weights.qkv.weight), std::move(weights.qkv.bias)),
      projection_(*this, "linear_proj", WeightSplit::rows, std::move(weights.projection.weight),
                  std::move(weights.projection.bias)),
      dropout_(*this, parent.name() + ".attention.dropout", kind_.dropout) {
  make_norm(query_norm_, *this, "query_norm", weights.query_norm, kind_);
  make_norm(key_norm_, *this, "key_norm", weights.key_norm, kind_);
  if (kind_.alibi) alibi_.emplace(*this, kind_.heads.queries);
}

Attention::~Attention() = default;

// How many heads of each kind a product of `features` features holds. All records are cut alike, so that a rank's part
// has the whole's ratio, until key heads can't be cut further: then it holds one of them.
Attention::Heads Attention::own_heads(std::int64_t features) const {
  const auto& heads = kind_.heads;
  const auto all = features / heads.dim;
  const auto group = heads.queries / heads.keys + 2;
  const auto keys = std::max<std::int64_t>(1, all / group);
  return {all - 2 * keys, keys, heads.dim};
}

// [B, S, heads, dim], normed and turned to its positions.
at::Tensor Attention::placed(const std::optional<RmsNorm>& norm, const at::Tensor& heads, const Batch& batch) const {
  auto x = heads;
  if (norm) x = norm->use() == Use::heads ? norm->forward(x) : norm->forward(x.flatten(2)).view_as(x);
  return kind_.rotary ? kind_.rotary->forward(x, batch.positions) : x;
}

// q, k and v [B, S, heads, dim] of what this rank's product holds.
ops::RotaryHeads Attention::parts(const at::Tensor& fused, const Batch& batch) const {
  const auto rows = fused.size(0), columns = fused.size(1), dim = kind_.heads.dim;
  if (kind_.order == Order::by_head) {
    const auto each = fused.view({rows, columns, -1, 3, dim}).unbind(3);
    return {placed(query_norm_, each[0], batch), placed(key_norm_, each[1], batch), each[2]};
  }
  const auto own = own_heads(fused.size(-1));
  const auto heads = fused.view({rows, columns, -1, dim});
  if (auto all = place ? place(heads, own, batch) : std::nullopt) return *all;
  if (kind_.rotary && !query_norm_ && !key_norm_)  // q and k turn in the product's memory
    return kind_.rotary->forward_fused_(heads, own.queries, own.keys, batch.positions);
  const auto each = heads.split_with_sizes({own.queries, own.keys, own.keys}, 2);
  return {placed(query_norm_, each[0], batch), placed(key_norm_, each[1], batch), each[2]};
}

// Where nothing changes q and k on their way, and only the causal mask and the biases act.
bool Attention::takes_fused(const Batch& batch) const {
  const bool plain = !batch.part && !(batch.training && dropout_.probability() > 0);
  return plain && alibi_ && alibi_->fused && kind_.order == Order::by_head && !query_norm_ && !key_norm_ &&
         !kind_.rotary;
}

at::Tensor Attention::attend(const at::Tensor& fused, const Batch& batch, KVCache* cache) const {
  const auto own = parts(fused, batch);
  const auto q = own.q.transpose(1, 2), k = own.k.transpose(1, 2), v = own.v.transpose(1, 2);
  const bool at_once = takes_fused(batch) && !(cache && cache->is_filled());
  const auto kernels = [&](const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                           const Batch& of) {
    if (auto y = at_once ? alibi_->fused(fused, of) : std::nullopt) {
      if (cache) cache->put(kind_.layer, keys, values, of.positions);
      return *y;
    }
    return alibi_ ? alibi_->attention(queries, keys, values, dropout_, of, cache, kind_.layer)
                  : causal_attention(queries, keys, values, dropout_, of, cache, kind_.layer, kind_.scores);
  };
  const auto core = [&](const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, const Batch& of) {
    const auto run = [&] { return kernels(queries, keys, values, of); };
    return batch.kept && around_kernels ? around_kernels(run, *batch.kept) : run();
  };
  CAPSTAN_ASSERT(!batch.part || around);
  return batch.part ? around(core, q, k, v, batch) : core(q, k, v, batch);
}

at::Tensor Attention::forward(const at::Tensor& x, const Batch& batch, KVCache* cache) const {
  const auto y = attend(qkv_.forward(x), batch, cache);
  return projection_.forward(y.transpose(1, 2).flatten(2));
}

}  // namespace capstan::nn
