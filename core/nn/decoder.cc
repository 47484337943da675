#include <capstan/base/text.h>
#include <capstan/nn/decoder.h>

#include <utility>

#include "nn/decoder_units.h"

namespace capstan::nn {

std::vector<std::unique_ptr<Unit>> decoder_units(const DecoderSpec& spec) {
  const DecoderRecords records(spec);
  const auto table = records.table(spec.names.tokens, spec.vocab_size);
  std::vector<std::unique_ptr<Unit>> units;
  units.push_back(std::make_unique<DecoderEmbedding>(spec, table));
  for (std::int64_t i = 0; i < spec.num_layers; ++i) units.push_back(std::make_unique<DecoderBlock>(spec, i));
  units.push_back(
      std::make_unique<DecoderHead>(spec, spec.tied_head ? table : records.table(spec.names.head, spec.vocab_size)));
  return units;
}

ModelFacts decoder_facts(const DecoderSpec& spec) {
  ModelFacts facts;
  facts.vocab_size = spec.vocab_size;
  facts.max_positions = spec.max_positions;
  facts.hidden_size = spec.hidden_size;
  facts.num_layers = spec.num_layers;
  facts.num_heads = spec.heads.queries;
  facts.num_kv_heads = spec.heads.keys;
  facts.num_experts = spec.mixture.count;
  facts.experts_per_token = spec.mixture.count > 0 ? spec.mixture.per_token : 0;
  facts.attention_dropout = spec.attention_dropout > 0;
  return facts;
}

double decoder_flops(const DecoderSpec& spec, std::int64_t sequence_length) {
  const auto hidden = spec.hidden_size, features = spec.heads.queries * spec.heads.dim;
  const auto attention = 2 * hidden * (features + spec.heads.keys * spec.heads.dim);
  auto feed_forward = (spec.mlp.gated ? 3 : 2) * hidden * spec.ff_dim;
  if (const auto& mixture = spec.mixture; mixture.count > 0)
    feed_forward = mixture.per_token * feed_forward + mixture.count * hidden;
  const auto matrices = spec.num_layers * (attention + feed_forward) + spec.vocab_size * hidden;
  return 6.0 * static_cast<double>(matrices) + 6.0 * static_cast<double>(spec.num_layers * features * sequence_length);
}

namespace {

void stack_experts(const DecoderSpec& spec, const std::string& block, layout::FileMap& map) {
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

}  // namespace

layout::FileMap decoder_files(const DecoderSpec& spec) {
  const auto& prefix = spec.names.prefix;
  layout::FileMap map;
  map.prefixes = {prefix};
  for (const auto& unit : decoder_units(spec)) {
    for (const auto* record : parameters(*unit)) {
      auto& tensor = map.tensors[record->name];
      tensor.name = record->name.starts_with(prefix) ? record->name.substr(prefix.size()) : record->name;
    }
  }
  if (spec.mixture.count > 0) {
    for (std::int64_t i = 0; i < spec.num_layers; ++i) stack_experts(spec, cat(spec.names.block, i, "."), map);
  }
  return map;
}

Decoder::~Decoder() = default;

layout::FileMap Decoder::file_map() const {
  const auto made = spec();
  auto map = decoder_files(made);
  describe_files(map);
  if (made.tied_head) map.ignored.push_back(made.names.head + ".weight");
  return map;
}

}  // namespace capstan::nn
