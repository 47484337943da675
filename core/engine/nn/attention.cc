#include <capstan/base/error.h>
#include <capstan/nn/attention.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace capstan::nn {
namespace {

// One vector for every head acts on whatever heads a rank has; one of all heads' features is split with them.
void make_norm(std::optional<RmsNorm>& norm, Layer& parent, const char* name, const WeightPtr& weight,
               const Attention::Kind& kind) {
  if (!weight) return;
  const auto use = weight->numel() == kind.spec.heads.dim ? Use::heads : Use::split;
  norm.emplace(parent, name, weight, kind.norm_epsilon, use, kind.norm_factor);
}

// How many heads of each kind a product of `features` features holds. All records are cut alike, so that a rank's part
// has the whole's ratio, until key heads can't be cut further: then it holds one of them.
AttentionHeads heads_in(std::int64_t features, const Attention::Kind& kind) {
  const auto& all = kind.spec.heads;
  const auto query = kind.output_gate ? 2 * all.dim : all.dim;
  const auto with_key = kind.keys_are_values ? all.dim : all.dim + all.values();
  const auto group = all.queries / all.keys * query + with_key;
  auto own = all;
  own.keys = std::max<std::int64_t>(1, features / group);
  own.queries = (features - own.keys * with_key) / query;
  return own;
}

// [B, S, heads, 2, dim]: each query and its gate, the first features of such a product.
at::Tensor with_gates(const at::Tensor& fused, const AttentionHeads& own) {
  return fused.narrow(-1, 0, own.queries * 2 * own.dim).unflatten(-1, {own.queries, 2, own.dim});
}

at::Tensor without_gate(const at::Tensor& fused, const AttentionHeads& own) {
  const auto both = own.queries * 2 * own.dim;
  const auto queries = with_gates(fused, own).select(-2, 0).flatten(-2);
  return at::cat({queries, fused.narrow(-1, both, fused.size(-1) - both)}, -1);
}

const Dropout* acting(const Dropout& dropout, const Batch& batch) {
  return batch.training && dropout.probability() > 0 ? &dropout : nullptr;
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Dropout& dropout,
                            const Batch& batch, KVCache* cache, std::size_t layer, const AttentionSpec& spec) {
  AttentionCall call{&spec, q, k, v};
  call.dropout = acting(dropout, batch);
  call.batch = &batch;
  call.cache = cache;
  call.layer = layer;
  return nn::attend(call);
}

AttentionCore::AttentionCore(Layer& parent, AttentionSpec spec, double dropout, std::size_t layer, WeightPtr sinks)
    : Layer(parent, "attention"),
      spec_(spec),
      layer_(layer),
      dropout_(*this, parent.name() + ".attention.dropout", dropout) {
  CAPSTAN_ASSERT(spec_.sinks == (sinks != nullptr));
  if (sinks) sinks_ = own(std::move(sinks), Use::split);
  if (spec_.alibi) alibi_.emplace(*this, spec_.heads.queries);
}

AttentionCore::~AttentionCore() = default;

AttentionCall AttentionCore::planned(const at::Tensor& like, const Batch& batch, std::int64_t length) const {
  const auto& heads = spec_.heads;
  const auto of = [&](const std::vector<std::int64_t>& shape, const at::TensorOptions& options) {
    return at::empty(std::vector<std::int64_t>(shape.size(), 1), options).expand(shape);
  };
  AttentionCall call{&spec_, of({1, heads.queries, length, heads.dim}, like.options()),
                     of({1, heads.keys, length, heads.dim}, like.options()),
                     of({1, heads.keys, length, heads.values()}, like.options())};
  if (spec_.alibi) call.slopes = of({heads.queries}, like.options().dtype(at::kFloat));
  if (spec_.sinks) call.sinks = of({heads.queries}, like.options());
  call.dropout = acting(dropout_, batch);
  call.batch = &batch;
  call.layer = layer_;
  call.needs_log_sum_exp = spec_.sinks;
  return call;
}

at::Tensor AttentionCore::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Batch& batch,
                                 KVCache* cache, const at::Tensor& fused) const {
  const auto core = [&](const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, const Batch& of) {
    AttentionCall call{&spec_, queries, keys, values};
    if (alibi_) call.slopes = alibi_->slopes(queries);
    if (sinks_) call.sinks = sinks_->value();
    if (!batch.part) call.fused = fused;
    call.dropout = acting(dropout_, of);
    call.batch = &of;
    call.cache = cache;
    call.layer = layer_;
    return rows_.attend(call);
  };
  CAPSTAN_ASSERT(!batch.part || around);
  return batch.part ? around(core, q, k, v, batch) : core(q, k, v, batch);
}

Attention::Attention(Layer& parent, Kind kind, Weights weights)
    : AttentionCore(parent, kind.spec, kind.dropout, kind.layer, std::move(weights.sinks)),
      kind_(std::move(kind)),
      qkv_(*this, "linear_qkv", WeightSplit::columns, std::move(weights.qkv.weight), std::move(weights.qkv.bias)),
      projection_(*this, "linear_proj", WeightSplit::rows, std::move(weights.projection.weight),
                  std::move(weights.projection.bias)) {
  make_norm(query_norm_, *this, "query_norm", weights.query_norm, kind_);
  make_norm(key_norm_, *this, "key_norm", weights.key_norm, kind_);
}

Attention::~Attention() = default;

HeadsCall Attention::heads_call(const at::Tensor& fused, const Batch& batch) const {
  HeadsCall call;
  call.own = heads_in(fused.size(-1), kind_);
  call.fused = kind_.output_gate ? without_gate(fused, call.own) : fused;
  call.order = kind_.order;
  call.query_norm = query_norm_ ? &*query_norm_ : nullptr;
  call.key_norm = key_norm_ ? &*key_norm_ : nullptr;
  call.rotary = kind_.rotary ? &*kind_.rotary : nullptr;
  call.query_scaling = kind_.query_scaling ? &*kind_.query_scaling : nullptr;
  call.keys_are_values = kind_.keys_are_values;
  if (kind_.value_norm) call.value_norm = kind_.norm_epsilon;
  call.batch = &batch;
  return call;
}

// Whether q, k and v are what the product gives.
bool Attention::is_product() const {
  const bool changes_queries = query_norm_ || kind_.rotary || kind_.query_scaling;
  return kind_.order == Order::by_head && !changes_queries && !key_norm_ && !kind_.value_norm;
}

AttentionCall Attention::planned(const at::Tensor& like, const Batch& batch, std::int64_t length) const {
  auto call = AttentionCore::planned(like, batch, length);
  if (is_product() && like.is_meta())
    call.fused = at::empty({1, length, heads().queries * 3 * heads().dim}, like.options());
  return call;
}

at::Tensor Attention::forward(const at::Tensor& x, const Batch& batch, KVCache* cache) const {
  const auto fused = qkv_.forward(x);
  const auto prepared = heads_call(fused, batch);
  const auto own = preparation_.row_for(prepared)->run(prepared);
  const auto y = attend(own.q.transpose(1, 2), own.k.transpose(1, 2), own.v.transpose(1, 2), batch, cache,
                        is_product() ? fused : at::Tensor())
                     .transpose(1, 2)
                     .flatten(2);
  if (!kind_.output_gate) return projection_.forward(y);
  const auto gate = with_gates(fused, heads_in(fused.size(-1), kind_)).select(-2, 1).flatten(-2);
  return projection_.forward(y * gate.sigmoid());
}

}  // namespace capstan::nn
