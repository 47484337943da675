#include <capstan/base/text.h>
#include <capstan/decoder/decoder.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "latent.h"

namespace capstan::decoder {
namespace {

// The feed-forward weights of a block that a token takes part in.
std::int64_t feed_forward_weights(const Spec& spec, std::int64_t block) {
  const auto& mixture = spec.mixture;
  const auto of_width = [&](std::int64_t ff) { return (spec.mlp.gated ? 3 : 2) * spec.hidden_size * ff; };
  if (mixture.is_in(block)) {
    const auto routers = (mixture.count + (mixture.shared_gate ? 1 : 0)) * spec.hidden_size;
    const auto beside = mixture.shared_dim + (mixture.beside_dense ? mixture.dense_ff_dim : 0);
    return mixture.per_token * of_width(spec.ff_dim) + of_width(beside) + routers;
  }
  return of_width(mixture.count > 0 ? mixture.dense_ff_dim : spec.ff_dim);
}

// Those of a layer of the model's own, in the block; nothing: the block has none.
template <class Kind>
std::optional<double> own_weights(const nn::Unit& block) {
  std::optional<double> weights;
  block.each<Kind>([&](const Kind& layer) {
    weights = 0;
    for (const auto& weight : layer.weights()) {
      for (const auto& record : weight->records())
        *weights += record.shape.size() > 1 ? static_cast<double>(layout::numel(record.shape)) : 0;
    }
  });
  return weights;
}

// How many positions a token of a block sees on average.
double positions_seen(const Spec& spec, std::int64_t sequence_length) {
  const auto length = static_cast<double>(sequence_length);
  const auto limit = spec.attention.window;
  if (!limit) return length / 2;
  const auto window = std::min(length, static_cast<double>(*limit));
  return window - window * window / (2 * length);
}

// Without the prefix that all names get.
std::string bare(const Spec& spec, const std::string& name) {
  return name.starts_with(spec.names.prefix) ? name.substr(spec.names.prefix.size()) : name;
}

// Forward's operations for a token in what mixes the tokens of a block with this spec: two a weight and a product.
double mixing_flops(const Spec& spec, const nn::Unit& block, std::int64_t sequence_length) {
  if (const auto own = own_weights<TokenMixer>(block)) {
    double more = 0;
    block.each<TokenMixer>([&](const TokenMixer& mixer) { more = mixer.more_flops_per_token(); });
    return 2 * *own + more;
  }
  const auto& heads = spec.attention.heads;
  const auto of_both = heads.dim + heads.values();
  const auto gate = spec.output_gate ? heads.queries * heads.dim : 0;
  const auto of_key = spec.sharing.of ? 0 : spec.keys_are_values ? heads.dim : of_both;
  const auto weights =
      spec.latent ? latent_weights(spec) : spec.hidden_size * (heads.queries * of_both + heads.keys * of_key + gate);
  const auto products = static_cast<double>(heads.queries * of_both) * positions_seen(spec, sequence_length);
  return 2 * (static_cast<double>(weights) + products);
}

void stack_experts(const Spec& spec, const std::string& block, layout::FileMap& map) {
  const auto experts = block + spec.names.experts;
  auto& gate_up = map.tensors.at(experts + ".gate_up_proj").stack;
  auto& down = map.tensors.at(experts + ".down_proj").stack;
  for (std::int64_t e = 0; e < spec.mixture.count; ++e) {
    const auto tensor = [&](std::size_t part) {
      return bare(spec, cat(experts, ".", e, ".", spec.names.expert_parts.at(part), ".weight"));
    };
    gate_up.push_back(tensor(0));
    gate_up.push_back(tensor(1));
    down.push_back(tensor(2));
  }
}

// Names::fused of one block: `rows` has how many each record has.
void fuse_modules(const Spec& spec, const std::string& block, const std::map<std::string, std::int64_t>& rows,
                  layout::FileMap& map) {
  for (const auto& [whole, modules] : spec.names.fused) {
    for (const std::string end : {".weight", ".bias"}) {
      std::vector<std::string> records;
      for (const auto& module : modules) {
        if (auto record = cat(block, module, end); rows.contains(record)) records.push_back(std::move(record));
      }
      std::int64_t all = 0, offset = 0;
      for (const auto& record : records) all += rows.at(record);
      for (const auto& record : records) {
        map.tensors.at(record).name = bare(spec, cat(block, whole, end));
        map.tensors.at(record).part = layout::FusedPart{0, offset, all};
        offset += rows.at(record);
      }
    }
  }
}

// Experts in one tensor a record, as Names has them without expert_parts.
void order_experts(const Spec& spec, const std::string& block, layout::FileMap& map) {
  const auto count = spec.mixture.count, both = 2 * spec.ff_dim;
  const auto experts = block + spec.names.experts;
  auto& gate_up = map.tensors.at(experts + ".gate_up_proj");
  gate_up.order = {0, 3, 2, 1};
  gate_up.file_shape = {count, spec.hidden_size, both};
  map.tensors.at(experts + ".down_proj").order = {0, 2, 1};
  if (!spec.mixture.expert_biases) return;
  auto& bias = map.tensors.at(experts + ".gate_up_proj_bias");
  bias.order = {0, 2, 1};
  bias.file_shape = {count, both};
}

// Experts in one tensor a record, as Names::experts_together says.
void hold_experts(const Spec& spec, const std::string& block, layout::FileMap& map) {
  map.tensors.at(block + spec.names.experts + ".gate_up_proj").file_shape = {spec.mixture.count, 2 * spec.ff_dim,
                                                                             spec.hidden_size};
}

// A fused q, k and v is a record [heads, 3, dim, …], and a matrix or a vector of as many rows in files.
void flatten_fused(const Spec& spec, const std::string& block, layout::FileMap& map) {
  const auto rows = 3 * spec.attention.heads.queries * spec.attention.heads.dim;
  const auto module = block + spec.names.qkv.front();
  map.tensors.at(module + ".weight").file_shape = {rows, spec.hidden_size};
  if (spec.qkv_bias) map.tensors.at(module + ".bias").file_shape = {rows};
}

// `spec` is the block's. A layer of the model's own in attention's or a mixture's place has other records.
void place_block(const Spec& spec, std::int64_t index, const std::map<std::string, std::int64_t>& rows,
                 layout::FileMap& map) {
  const auto block = cat(spec.names.block, index, ".");
  const bool is_fused = spec.names.qkv.size() == 1 && !spec.latent;
  if (is_fused && rows.contains(block + spec.names.qkv.front() + ".weight")) flatten_fused(spec, block, map);
  const auto place_experts = spec.names.experts_together       ? hold_experts
                             : spec.names.expert_parts.empty() ? order_experts
                                                               : stack_experts;
  const bool has_experts = spec.mixture.is_in(index) && rows.contains(block + spec.names.experts + ".gate_up_proj");
  if (has_experts) place_experts(spec, block, map);
  fuse_modules(spec, block, rows, map);
}

}  // namespace

layout::FileMap files(const Spec& spec) {
  const auto& prefix = spec.names.prefix;
  layout::FileMap map;
  map.prefixes = {prefix};
  map.unprefixed.clear();
  const bool has_values = spec.head_values > 0;
  const auto module = has_values ? spec.names.value_head : spec.names.head;
  const auto head = module + ".weight";
  if (!head.starts_with(prefix)) map.unprefixed.push_back(head);
  if (!head.starts_with(prefix) && spec.head_bias && !has_values) map.unprefixed.push_back(module + ".bias");
  if (has_values) map.may_be_absent.push_back(head);
  if (has_values) map.ignored.push_back(spec.names.head + ".weight");
  std::map<std::string, std::int64_t> rows;
  for (const auto& unit : units(spec)) {
    for (const auto* record : nn::parameters(*unit)) {
      map.tensors[record->name].name = bare(spec, record->name);
      rows[record->name] = record->shape.front();
    }
  }
  for (std::int64_t i = 0; i < spec.num_layers; ++i) place_block(spec.of_block(i), i, rows, map);
  return map;
}

Model::~Model() = default;

nn::ModelFacts Model::facts() const {
  const auto made = spec();
  nn::ModelFacts facts;
  facts.vocab_size = made.vocab_size;
  facts.max_positions = made.max_positions;
  facts.hidden_size = made.hidden_size;
  facts.num_layers = made.num_layers;
  facts.num_heads = made.attention.heads.queries;
  facts.num_kv_heads = made.attention.heads.keys;
  facts.num_experts = made.mixture.count;
  facts.experts_per_token = made.mixture.count > 0 ? made.mixture.per_token : 0;
  facts.attention_dropout = made.attention_dropout > 0;
  if (made.head_values > 0) facts.outputs = nn::ValueHead::outputs();
  return facts;
}

double Model::flops_per_token(std::int64_t sequence_length) const {
  const auto made = spec();
  const auto all = units(made);
  auto forward = 2.0 * static_cast<double>((made.head_values > 0 ? made.head_values : made.vocab_size)) *
                 static_cast<double>(made.hidden_size);
  // Inputs of blocks: their projection, and two products in each block.
  forward += 6.0 * static_cast<double>(made.num_layers * made.inputs.width * made.hidden_size);
  for (std::int64_t i = 0; i < made.num_layers; ++i) {
    const auto& block = *all.at(static_cast<std::size_t>(i) + 1);
    const auto own = made.of_block(i);
    const auto feeding = own_weights<FeedForward>(block);
    forward += mixing_flops(own, block, sequence_length);
    forward += 2 * (feeding ? *feeding : static_cast<double>(feed_forward_weights(own, i)));
  }
  return 3 * forward;
}

layout::FileMap Model::file_map() const {
  const auto made = spec();
  auto map = files(made);
  describe_files(map);
  if (made.tied_head && made.head_values == 0)
    map.copies[bare(made, made.names.head) + ".weight"] = bare(made, made.names.tokens) + ".weight";
  return map;
}

}  // namespace capstan::decoder
