#include <capstan/base/philox.h>
#include <capstan/nn/layers.h>
#include <capstan/ops/gelu.h>
#include <capstan/ops/linear.h>
#include <capstan/ops/random.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/activated_linear.h"
#include "ops/add_norm.h"
#include "ops/shared_input.h"
#include "ops/table_rows.h"

namespace capstan::nn {

Linear::Linear(Layer& parent, std::string name, WeightSplit may_split, WeightPtr weight, WeightPtr bias)
    : Layer(parent, std::move(name)),
      may_split_(may_split),
      weight_(own(std::move(weight), may_split == WeightSplit::none ? Use::states : Use::split)),
      bias_(std::move(bias)) {
  // Where inputs are split, results are partial sums and the bias is added to their sum.
  if (bias_) own(bias_, may_split == WeightSplit::columns ? Use::split : Use::states);
}

Linear::~Linear() = default;

namespace {

// x W^T, plus the bias where there is one.
at::Tensor multiplied(const Port<at::Tensor(const at::Tensor&, const at::Tensor&)>& multiply, const at::Tensor& x,
                      const at::Tensor& matrix, const std::optional<at::Tensor>& bias) {
  if (multiply) return bias ? multiply(x, matrix) + *bias : multiply(x, matrix);
  return x.is_cpu() ? at::linear(x, matrix, bias) : ops::linear(x, matrix, bias);
}

// The weight's type where states in float32 take a 16-bit weight in float32: routers need it.
std::optional<at::ScalarType> narrow_type(const at::Tensor& x, const at::Tensor& weight) {
  const auto type = weight.scalar_type();
  if (x.scalar_type() != at::kFloat || (type != at::kBFloat16 && type != at::kHalf)) return {};
  return type;
}

// What the adapter makes of the product `y`; an adapter computes in the weight's type.
at::Tensor adapted(const Port<at::Tensor(const at::Tensor&, const at::Tensor&)>& adapter, const at::Tensor& x,
                   const at::Tensor& y, std::optional<at::ScalarType> narrow) {
  if (!narrow) return adapter(x, y);
  return y + adapter(x.to(*narrow), at::zeros(y.sizes(), y.options().dtype(*narrow)));
}

// What the product and adapters read.
ops::SharedInput for_both(const Port<at::Tensor(const at::Tensor&, const at::Tensor&)>& adapter, const at::Tensor& x) {
  return adapter && !x.is_cpu() ? ops::share_input(x) : ops::SharedInput{x, x};
}

}  // namespace

at::Tensor Linear::forward(const at::Tensor& x) const {
  const auto narrow = narrow_type(x, weight_->value());
  const auto as_x = [&](const at::Tensor& own) { return narrow ? own.to(at::kFloat) : own; };
  // BLOOM's [head, 3, dim, hidden] is a matrix to the product.
  const at::Tensor matrix = as_x(weight_->value().flatten(0, -2));
  const auto bias = bias_ ? std::optional(as_x(bias_->value().flatten())) : std::nullopt;
  const auto input = for_both(adapter, before ? before(x) : x);
  if (!adapter && !after) return multiplied(multiply, input.base, matrix, bias);
  at::Tensor y = multiplied(multiply, input.base, matrix, {});
  if (adapter) y = adapted(adapter, input.adapter, y, narrow);
  if (after) y = after(y);
  return bias ? y + *bias : y;
}

Embedding::Embedding(Layer& parent, std::string name, WeightSplit may_split, WeightPtr weight)
    : Layer(parent, std::move(name)),
      may_split_(may_split),
      weight_(own(std::move(weight), may_split == WeightSplit::none ? Use::states : Use::split)) {
  for (auto& record : weight_->records()) record.usage = layout::Usage::table;
}

Embedding::~Embedding() = default;

at::Tensor Embedding::forward(const at::Tensor& ids, const at::Tensor& real) const {
  return lookup ? lookup(weight_->value(), ids) : ops::lookup(weight_->value(), ids, real);
}

LayerNorm::LayerNorm(Layer& parent, std::string name, WeightPtr weight, WeightPtr bias, double epsilon)
    : Layer(parent, std::move(name)),
      weight_(own(std::move(weight), Use::states)),
      bias_(own(std::move(bias), Use::states)),
      epsilon_(epsilon) {}

LayerNorm::~LayerNorm() = default;

namespace {

template <class Norm>
SumAndNorm in_two_steps(const Norm& norm, const at::Tensor& x, const at::Tensor& y) {
  const auto sum = y.defined() ? x + y : x;
  return {sum, norm.forward(sum)};
}

SumAndNorm in_one_pass(const at::Tensor& x, const at::Tensor& y, const ops::NormOf& norm) {
  const auto both = ops::add_norm(x, y, norm);
  return {both.sum, both.normed};
}

}  // namespace

at::Tensor LayerNorm::forward(const at::Tensor& x) const {
  return at::layer_norm(x, {x.size(-1)}, weight_->value(), bias_->value(), epsilon_);
}

SumAndNorm LayerNorm::forward_sum(const at::Tensor& x, const at::Tensor& y) const {
  return x.is_cpu() ? in_two_steps(*this, x, y) : in_one_pass(x, y, {weight_->value(), bias_->value(), epsilon_});
}

RmsNorm::RmsNorm(Layer& parent, std::string name, WeightPtr weight, double epsilon, Use use, Factor factor)
    : Layer(parent, std::move(name)), weight_(own(std::move(weight), use)), epsilon_(epsilon), factor_(factor) {}

RmsNorm::~RmsNorm() = default;

at::Tensor RmsNorm::forward(const at::Tensor& x) const {
  const bool adds_one = factor_ == Factor::one_plus_weight;
  if (adds_one && !mean_square && !x.is_cpu()) return forward_sum(x, {}).normed;
  if (!mean_square && !adds_one) return at::rms_norm(x, {x.size(-1)}, weight_->value(), epsilon_);
  const auto wide = x.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const at::Tensor factor = adds_one ? weight_->value().to(wide.scalar_type()) + 1 : weight_->value();
  // One kernel of ATen's between two conversions, which round no more than the formula does.
  if (!mean_square) return at::rms_norm(wide, {x.size(-1)}, factor, epsilon_).to(x.scalar_type());
  const auto scale = (mean_square(wide.square().mean(-1, /*keepdim=*/true)) + epsilon_).rsqrt();
  return (wide * scale * factor).to(x.scalar_type());
}

SumAndNorm RmsNorm::forward_sum(const at::Tensor& x, const at::Tensor& y) const {
  if (x.is_cpu() || mean_square) return in_two_steps(*this, x, y);
  return in_one_pass(x, y, {weight_->value(), {}, epsilon_, factor_ == Factor::one_plus_weight});
}

Mlp::Mlp(Layer& parent, Kind kind, LinearWeights up, LinearWeights down)
    : Layer(parent, "mlp"),
      kind_(kind),
      up_(*this, "linear_fc1", WeightSplit::columns, std::move(up.weight), std::move(up.bias)),
      down_(*this, "linear_fc2", WeightSplit::rows, std::move(down.weight), std::move(down.bias)) {}

Mlp::~Mlp() = default;

at::Tensor activated(Activation activation, const at::Tensor& x) {
  if (activation == Activation::silu) return at::silu(x);
  return ops::gelu(x, activation == Activation::gelu_tanh);
}

namespace {

// The activation between both products; ATen's silu alone is none of the operator's.
std::optional<ops::Activating> activating(const Mlp::Kind& kind) {
  if (kind.activation == Activation::silu) return kind.gated ? std::optional(ops::Activating::swiglu) : std::nullopt;
  if (kind.activation == Activation::gelu) return kind.gated ? std::nullopt : std::optional(ops::Activating::gelu);
  return kind.gated ? ops::Activating::geglu_tanh : ops::Activating::gelu_tanh;
}

at::Tensor between(const Mlp::Kind& kind, const at::Tensor& x) {
  if (const auto by = activating(kind)) return ops::activated(x, *by);
  if (!kind.gated) return activated(kind.activation, x);
  const auto parts = x.chunk(2, -1);
  return activated(kind.activation, parts[0]) * parts[1];
}

}  // namespace

bool Mlp::is_products_alone() const {
  return kind_.gated && kind_.activation == Activation::silu && !up_.bias() && !down_.bias() && !up_.adapter &&
         !down_.adapter && !up_.after && !down_.before;
}

at::Tensor Mlp::forward(const at::Tensor& x) const {
  if (products && is_products_alone()) {
    const auto y = products(up_.before ? up_.before(x) : x, up_.weight()->value().flatten(0, -2),
                            down_.weight()->value().flatten(0, -2));
    return down_.after ? down_.after(y) : y;
  }
  const auto y = up_.forward(x);
  const auto activation = activating(kind_);
  const bool has_ports = down_.before || down_.after || down_.multiply || down_.adapter;
  if (activation && !has_ports && !x.is_cpu()) {  // nothing comes between both: they are one node of autograd
    const auto bias = down_.bias() ? std::optional(down_.bias()->value().flatten()) : std::nullopt;
    return ops::activated_linear(y, *activation, down_.weight()->value().flatten(0, -2), bias);
  }
  return down_.forward(between(kind_, y));
}

namespace {

ops::DropoutKey with_batch(ops::DropoutKey key, const Batch& batch) {
  key.seed = batch.seed;
  key.step = batch.step;
  key.device_step = batch.device_step;
  key.sample_ids = batch.sample_ids;
  return key;
}

ops::DropoutKey at_site(std::uint64_t site) {
  ops::DropoutKey key;
  key.site = site;
  return key;
}

// Where some of the batch's columns are in whole rows.
std::vector<ColumnRange> in_whole_rows(const Batch& batch, ColumnRange columns) {
  if (!batch.part) return {columns};
  std::vector<ColumnRange> ranges;
  for (const auto& own : batch.part->own) {
    const auto skipped = std::min(columns.begin, own.length);
    const auto taken = std::min(columns.length, own.length - skipped);
    if (taken > 0) ranges.push_back({own.begin + skipped, taken});
    columns = {columns.begin - skipped, columns.length - taken};
  }
  return ranges;
}

// An element of the mask is one of its sample's, wherever packing has put that.
at::Tensor drop_apart(const at::Tensor& x, double probability, ops::DropoutKey key, const Batch& batch,
                      std::int64_t first) {
  const auto& all = batch.part ? *batch.part->whole : batch;
  const auto& documents = *all.documents;
  const auto columns = batch.tokens.defined() ? batch.tokens.size(1) : x.size(1);
  const bool is_all = x.size(1) == columns;
  const auto own = is_all ? x : at::constant_pad_nd(x, {0, 0, first, columns - first - x.size(1)});
  key.sample_ids = documents.sample_ids;
  key.row_shape.insert(key.row_shape.begin(), documents.longest);
  key.row_offset.insert(key.row_offset.begin(), 0);
  const auto dropped = ops::dropout(documents.apart(batch.among_all_columns(own)), probability, key);
  const auto together = documents.together(dropped, x.size(0), batch.part ? all.tokens.size(1) : columns);
  return batch.own_columns(together).narrow(1, first, x.size(1));
}

}  // namespace

at::Tensor drop_columns(const at::Tensor& x, double probability, ops::DropoutKey key, const Batch& batch,
                        std::int64_t first) {
  key = with_batch(std::move(key), batch);
  if (key.row_shape.empty()) {
    key.row_shape = x.sizes().slice(2).vec();
    key.row_offset.assign(key.row_shape.size(), 0);
  }
  if (batch.documents || (batch.part && batch.part->whole->documents))
    return drop_apart(x, probability, std::move(key), batch, first);
  const auto ranges = in_whole_rows(batch, {first, x.size(1)});
  std::vector<at::Tensor> dropped;
  std::int64_t begin = 0;
  for (const auto& range : ranges) {
    auto own = key;
    own.row_shape.insert(own.row_shape.begin(), range.begin + range.length);
    own.row_offset.insert(own.row_offset.begin(), range.begin);
    const auto piece = ranges.size() == 1 ? x : x.narrow(1, begin, range.length);
    dropped.push_back(ops::dropout(piece, probability, own));
    begin += range.length;
  }
  if (ranges.empty()) return x;
  return ranges.size() == 1 ? dropped.front() : at::cat(dropped, 1);
}

Dropout::Dropout(Layer& parent, const std::string& site, double probability)
    : Layer(parent, site), site_(stable_hash(site)), probability_(probability) {}

Dropout::~Dropout() = default;

at::Tensor Dropout::forward(const at::Tensor& x, const Batch& batch) const {
  if (!batch.training || probability_ == 0) return x;
  return drop_columns(x, probability_, at_site(site_), batch, first_position ? first_position(x.size(1)) : 0);
}

// A row's length is that of its micro-batch's longest sample, which depends on the layout: elements are counted as in a
// row of fixed extent. Without one only where it would not fit into the 2^34 elements of a row.
at::Tensor Dropout::on_attention(const at::Tensor& probabilities, const Batch& batch) const {
  if (!batch.training || probability_ == 0) return probabilities;
  constexpr std::int64_t extent = 8192;
  constexpr std::int64_t most_heads = (std::int64_t{1} << 34) / (extent * extent);
  auto attention = with_batch(at_site(site_), batch);
  const auto queries = probabilities.size(-2), keys = probabilities.size(-1);
  auto heads = batch.heads.value_or(HeadRange{0, probabilities.size(1)});
  if (own_heads) {
    const auto own = own_heads(heads.all);
    heads = {own.first + heads.first, own.all};
  }
  const bool fits = queries <= extent && keys <= extent && heads.all <= most_heads;
  attention.row_shape = {heads.all, fits ? extent : queries, fits ? extent : keys};
  attention.row_offset = {heads.first, 0, 0};
  return ops::dropout(probabilities, probability_, attention);
}

}  // namespace capstan::nn
