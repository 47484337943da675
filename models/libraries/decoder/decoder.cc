#include <capstan/base/text.h>
#include <capstan/decoder/decoder.h>

#include <algorithm>
#include <optional>

namespace capstan::decoder {
namespace {

// The weights of a block's attention.
std::int64_t attention_weights(const Spec& block) {
  const auto& heads = block.attention.heads;
  const auto of_key = block.sharing.of ? 0 : block.keys_are_values ? heads.dim : heads.dim + heads.values();
  return block.hidden_size * (heads.queries * (heads.dim + heads.values()) + heads.keys * of_key);
}

// The feed-forward weights of a block that a token takes part in.
std::int64_t feed_forward_weights(const Spec& spec, std::int64_t block) {
  const auto& mixture = spec.mixture;
  const auto of_width = [&](std::int64_t ff) { return (spec.mlp.gated ? 3 : 2) * spec.hidden_size * ff; };
  if (mixture.is_in(block)) return mixture.per_token * of_width(spec.ff_dim) + mixture.count * spec.hidden_size;
  return of_width(mixture.count > 0 ? mixture.dense_ff_dim : spec.ff_dim);
}

// The same of a layer that the spec's feed_forward has made; nothing: the block has none.
std::optional<std::int64_t> own_feed_forward_weights(const nn::Unit& block) {
  std::optional<std::int64_t> weights;
  block.each<FeedForward>([&](const FeedForward& layer) {
    weights = 0;
    for (const auto& weight : layer.weights()) {
      for (const auto& record : weight->records())
        *weights += record.shape.size() > 1 ? layout::numel(record.shape) : 0;
    }
  });
  return weights;
}

// How many positions a token of a block sees on average.
double positions_seen(const Spec& block, std::int64_t sequence_length) {
  const auto length = static_cast<double>(sequence_length);
  const auto limit = block.attention.window;
  if (!limit) return length / 2;
  const auto window = std::min(length, static_cast<double>(*limit));
  return window - window * window / (2 * length);
}

void stack_experts(const Spec& spec, const std::string& block, layout::FileMap& map) {
  const auto bare = [&](const std::string& name) {
    return name.starts_with(spec.names.prefix) ? name.substr(spec.names.prefix.size()) : name;
  };
  const auto experts = block + spec.names.experts;
  auto& gate_up = map.tensors.at(experts + ".gate_up_proj").stack;
  auto& down = map.tensors.at(experts + ".down_proj").stack;
  for (std::int64_t e = 0; e < spec.mixture.count; ++e) {
    const auto tensor = [&](std::size_t part) {
      return bare(cat(experts, ".", e, ".", spec.names.expert_parts.at(part), ".weight"));
    };
    gate_up.push_back(tensor(0));
    gate_up.push_back(tensor(1));
    down.push_back(tensor(2));
  }
}

// A fused q, k and v is a record [heads, 3, dim, …], and a matrix or a vector of as many rows in files.
void flatten_fused(const Spec& spec, layout::FileMap& map) {
  const auto rows = 3 * spec.attention.heads.queries * spec.attention.heads.dim;
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    const auto module = cat(spec.names.block, i, ".", spec.names.qkv.front());
    map.tensors.at(module + ".weight").file_shape = {rows, spec.hidden_size};
    if (spec.qkv_bias) map.tensors.at(module + ".bias").file_shape = {rows};
  }
}

}  // namespace

layout::FileMap files(const Spec& spec) {
  const auto& prefix = spec.names.prefix;
  layout::FileMap map;
  map.prefixes = {prefix};
  map.unprefixed.clear();
  const bool has_values = spec.head_values > 0;
  const auto head = (has_values ? spec.names.value_head : spec.names.head) + ".weight";
  if (!head.starts_with(prefix)) map.unprefixed.push_back(head);
  if (has_values) map.may_be_absent.push_back(head);
  if (has_values) map.ignored.push_back(spec.names.head + ".weight");
  for (const auto& unit : units(spec)) {
    for (const auto* record : nn::parameters(*unit)) {
      auto& tensor = map.tensors[record->name];
      tensor.name = record->name.starts_with(prefix) ? record->name.substr(prefix.size()) : record->name;
    }
  }
  if (spec.names.qkv.size() == 1) flatten_fused(spec, map);
  for (std::int64_t i = 0; i < spec.num_layers; ++i) {
    if (spec.mixture.is_in(i)) stack_experts(spec, cat(spec.names.block, i, "."), map);
  }
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
  const auto hidden = made.hidden_size;
  auto weights = (made.head_values > 0 ? made.head_values : made.vocab_size) * hidden;
  weights += 3 * made.num_layers * made.inputs.width * hidden;  // their projection, and two in each block
  const auto blocks = made.feed_forward ? units(made) : std::vector<std::unique_ptr<nn::Unit>>();
  double of_scores = 0;
  for (std::int64_t i = 0; i < made.num_layers; ++i) {
    const auto own =
        blocks.empty() ? std::nullopt : own_feed_forward_weights(*blocks.at(static_cast<std::size_t>(i) + 1));
    const auto block = made.of_block(i);
    const auto& heads = block.attention.heads;
    weights += attention_weights(block) + (own ? *own : feed_forward_weights(block, i));
    of_scores += static_cast<double>(heads.queries * (heads.dim + heads.values())) *
                 positions_seen(block, sequence_length);
  }
  return 6.0 * (static_cast<double>(weights) + of_scores);
}

layout::FileMap Model::file_map() const {
  const auto made = spec();
  auto map = files(made);
  describe_files(map);
  const auto in_files = [&](const std::string& name) {
    return name.starts_with(made.names.prefix) ? name.substr(made.names.prefix.size()) : name;
  };
  if (made.tied_head && made.head_values == 0)
    map.copies[in_files(made.names.head) + ".weight"] = in_files(made.names.tokens) + ".weight";
  return map;
}

}  // namespace capstan::decoder
