#include "gated_delta_net.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <cmath>
#include <utility>
#include <vector>

#include "causal_convolution.h"
#include "gate.h"
#include "gated_delta_rule.h"
#include "tensors.h"

namespace qwen3_5 {

namespace nn = capstan::nn;
namespace layout = capstan::layout;
using layout::Init;

namespace {

nn::WeightPtr weight_of(std::vector<layout::Param> records) { return std::make_shared<nn::Weight>(std::move(records)); }

/// Records of one product: what a module is called here, and its features.
struct Part {
  const char* name;
  std::int64_t features;
};

std::vector<Part> mixed_parts(const DeltaSizes& s) {
  const auto keys = s.key_heads * s.key_dim;
  return {{"q", keys}, {"k", keys}, {"v", s.value_heads * s.value_dim}};
}

// [features, in] of each part.
nn::WeightPtr product_of(const std::string& module, const std::vector<Part>& parts, std::int64_t in, double std) {
  std::vector<layout::Param> records;
  for (const auto& part : parts)
    records.push_back(nn::record(module + part.name + ".weight", {part.features, in}, Init::normal(std), true));
  return weight_of(std::move(records));
}

std::int64_t values_of_key(const DeltaSizes& s) { return s.value_heads / s.key_heads; }

// Features of one key head.
std::int64_t qkvz_of_head(const DeltaSizes& s) { return 2 * (s.key_dim + values_of_key(s) * s.value_dim); }

std::vector<Part> qkvz_parts(const DeltaSizes& s) {
  auto parts = mixed_parts(s);
  parts.push_back({"z", s.value_heads * s.value_dim});
  return parts;
}

// The records of both products.
nn::WeightPtr qkvz_of(const DeltaSizes& s, const std::string& module) {
  if (!s.by_head) return product_of(module + "in_proj_", qkvz_parts(s), s.hidden, s.init_std);
  return weight_of({nn::record(module + "in_proj_qkvz.weight", {s.key_heads, qkvz_of_head(s), s.hidden},
                               Init::normal(s.init_std), true)});
}

nn::WeightPtr ba_of(const DeltaSizes& s, const std::string& module) {
  if (!s.by_head)
    return product_of(module + "in_proj_", {{"b", s.value_heads}, {"a", s.value_heads}}, s.hidden, s.init_std);
  return weight_of({nn::record(module + "in_proj_ba.weight", {s.key_heads, 2 * values_of_key(s), s.hidden},
                               Init::normal(s.init_std), true)});
}

nn::WeightPtr convolution_of(const std::string& module, const DeltaSizes& s) {
  std::vector<layout::Param> records;
  for (const auto& part : mixed_parts(s)) {
    records.push_back(nn::record(capstan::cat(module, "conv1d_", part.name, ".weight"), {part.features, 1, s.kernel},
                                 Init::normal(s.init_std), true));
  }
  return weight_of(std::move(records));
}

// transformers draws A evenly in (0, 16): this is the mean of its logarithm, whose standard deviation is 1.
Init initial_rate() { return Init::normal(1, std::log(16.0) - 1); }

std::string module_of(const std::string& records) { return records + "linear_attn."; }

}  // namespace

GatedDeltaNet::GatedDeltaNet(nn::Layer& parent, const DeltaSizes& s, const std::string& records, std::size_t entry)
    : TokenMixer(parent, "gated_delta_net"),
      sizes_(s),
      entry_(entry),
      qkvz_(*this, "linear_qkvz", nn::WeightSplit::columns, qkvz_of(s, module_of(records)), nullptr),
      ba_(*this, "linear_ba", nn::WeightSplit::columns, ba_of(s, module_of(records)), nullptr),
      convolution_(own(convolution_of(module_of(records), s), nn::Use::split)),
      bias_(own(weight_of({nn::record(module_of(records) + "dt_bias", {s.value_heads}, Init::ones(), false)}),
                nn::Use::split)),
      rate_(own(weight_of({nn::record(module_of(records) + "A_log", {s.value_heads}, initial_rate(), false)}),
                nn::Use::split)),
      norm_(*this, "norm",
            weight_of({nn::record(module_of(records) + "norm.weight", {s.value_dim}, Init::ones(), false)}),
            s.norm_epsilon, nn::Use::heads),
      projection_(*this, "linear_proj", nn::WeightSplit::rows,
                  product_of(module_of(records), {{"out_proj", s.hidden}}, s.value_heads * s.value_dim, s.init_std),
                  nullptr) {}

GatedDeltaNet::~GatedDeltaNet() = default;

/// What goes into convolution and rule, of this rank's heads.
struct GatedDeltaNet::Inputs {
  at::Tensor qkv;    // [B, S, channels]
  at::Tensor z;      // [B, S, value heads, value dim]
  at::Tensor decay;  // [B, S, value heads], float32 or float64
  at::Tensor beta;   // [B, S, value heads]
};

/// What both products give, of this rank's heads.
struct GatedDeltaNet::Products {
  at::Tensor qkv;  // [B, S, channels]
  at::Tensor z;    // [B, S, value heads · value dim]
  at::Tensor b;    // [B, S, value heads]
  at::Tensor a;    // [B, S, value heads]
};

GatedDeltaNet::Products GatedDeltaNet::products_of(const at::Tensor& x) const {
  const auto qkvz = qkvz_.forward(x), ba = ba_.forward(x);
  if (!sizes_.by_head) {
    const auto heads = ba.size(-1) / 2, values = heads * sizes_.value_dim, channels = qkvz.size(-1) - values;
    // Backward of a split writes each gradient once, that of views of their own fills and adds whole ones.
    const auto wide = qkvz.split_with_sizes({channels, values}, -1), narrow = ba.split_with_sizes({heads, heads}, -1);
    return {wide[0], wide[1], narrow[0], narrow[1]};
  }
  const auto of_key = values_of_key(sizes_), values = of_key * sizes_.value_dim;
  const auto parts = qkvz.unflatten(-1, {-1, qkvz_of_head(sizes_)})
                         .split_with_sizes({sizes_.key_dim, sizes_.key_dim, values, values}, -1);
  const auto both = ba.unflatten(-1, {-1, 2 * of_key}).split(of_key, -1);
  return {at::cat({parts[0].flatten(-2), parts[1].flatten(-2), parts[2].flatten(-2)}, -1), parts[3].flatten(-2),
          both[0].flatten(-2), both[1].flatten(-2)};
}

GatedDeltaNet::Inputs GatedDeltaNet::inputs_of(const at::Tensor& x) const {
  const auto made = products_of(x);
  const auto type = sum_type(x);
  const auto step = at::softplus(made.a.to(type) + bias_->value());
  Inputs in;
  in.qkv = made.qkv;
  in.z = made.z.unflatten(-1, {-1, sizes_.value_dim});
  in.decay = -rate_->value().to(type).exp() * step;
  in.beta = made.b.sigmoid();
  return in;
}

namespace {

DeltaInput rule_input(const at::Tensor& qkv, const at::Tensor& decay, const at::Tensor& beta, const DeltaSizes& s) {
  const auto values = beta.size(-1) * s.value_dim, keys = (qkv.size(-1) - values) / 2;
  const auto each = qkv.split_with_sizes({keys, keys, values}, -1);
  const auto heads = [](const at::Tensor& x, std::int64_t dim) { return x.unflatten(-1, {-1, dim}); };
  return {heads(each[0], s.key_dim), heads(each[1], s.key_dim), heads(each[2], s.value_dim), decay, beta};
}

}  // namespace

// Prompts of different lengths are padded on the right: their states are those after the token `last` of each row.
at::Tensor GatedDeltaNet::prompted(Inputs in, const at::Tensor& last, nn::KVCache& cache) const {
  const auto rows = in.qkv.size(0), length = in.qkv.size(1), before = sizes_.kernel - 1;
  const auto none = at::zeros({rows, before, in.qkv.size(2)}, in.qkv.options());
  const auto window = last.unsqueeze(1) + 1 + at::arange(before, last.options());
  const auto inputs = at::cat({none, in.qkv}, 1).gather(1, window.unsqueeze(-1).expand({-1, -1, in.qkv.size(2)}));
  const auto is_real = at::arange(length, last.options()).le(last.unsqueeze(1)).unsqueeze(-1);
  in.decay = in.decay * is_real;
  in.beta = in.beta * is_real;
  const auto qkv = causal_convolution(in.qkv, convolution_->value());
  auto made = gated_delta_rule(rule_input(qkv, in.decay, in.beta, sizes_));
  cache.put_state(entry_, {inputs, made.state});
  return made.out;
}

// One token more for each row. States are changed where they are: a graph of the device may have recorded it.
at::Tensor GatedDeltaNet::continued(const Inputs& in, nn::KVCache& cache) const {
  if (!cache.has_state(entry_)) {  // a rank without prompts, whose rows have no reader
    const auto rows = in.qkv.size(0), heads = in.beta.size(2);
    cache.put_state(entry_, {at::zeros({rows, sizes_.kernel - 1, in.qkv.size(2)}, in.qkv.options()),
                             at::zeros({rows, heads, sizes_.key_dim, sizes_.value_dim}, in.decay.options())});
  }
  const auto kept = cache.state(entry_);
  const auto window = at::cat({kept[0], in.qkv}, 1);
  const auto qkv = convolved_last(window, convolution_->value());
  const auto made = recurrent_gated_delta_rule(rule_input(qkv, in.decay, in.beta, sizes_), kept[1]);
  kept[0].copy_(window.narrow(1, 1, sizes_.kernel - 1));
  kept[1].copy_(made.state);
  return made.out;
}

at::Tensor GatedDeltaNet::mixed(const Inputs& in, const nn::Batch& batch, nn::KVCache* cache) const {
  if (cache && cache->is_filled()) return continued(in, *cache);
  if (cache) return prompted(in, batch.last, *cache);
  // Rows that hold several sequences: each begins at its position 0, and nothing goes over into it.
  const auto positions = batch.documents ? batch.positions : at::Tensor();
  auto made = rule_input(causal_convolution(in.qkv, convolution_->value(), positions), in.decay, in.beta, sizes_);
  if (positions.defined()) made.begins = positions.eq(0);
  return gated_delta_rule(made).out;
}

at::Tensor GatedDeltaNet::forward(const at::Tensor& x, const nn::Batch& batch, nn::KVCache* cache) const {
  CAPSTAN_ASSERT(!batch.part);  // strategies that share columns have refused it
  const auto in = inputs_of(x);
  const auto gated = gated_by(norm_.forward(mixed(in, batch, cache)), in.z);
  return projection_.forward(gated.flatten(2));
}

void GatedDeltaNet::describe_files(const DeltaSizes& s, const std::string& records, layout::FileMap& map) {
  std::int64_t offset = 0;
  const auto whole = 2 * s.key_heads * s.key_dim + s.value_heads * s.value_dim;
  const auto module = module_of(records);
  const auto fuse = [&](const std::string& own, const std::string& fused) {
    auto& tensor = map.tensors.at(module + own);
    tensor.name = tensor.name.substr(0, tensor.name.size() - own.size()) + fused;
    tensor.part = layout::FusedPart{0, offset, whole};
  };
  for (const auto& part : mixed_parts(s)) {
    fuse(capstan::cat("conv1d_", part.name, ".weight"), "conv1d.weight");
    if (!s.by_head) fuse(capstan::cat("in_proj_", part.name, ".weight"), "in_proj_qkv.weight");
    offset += part.features;
  }
  if (!s.by_head) return;
  map.tensors.at(module + "in_proj_qkvz.weight").file_shape = {s.key_heads * qkvz_of_head(s), s.hidden};
  map.tensors.at(module + "in_proj_ba.weight").file_shape = {2 * s.value_heads, s.hidden};
}

}  // namespace qwen3_5
