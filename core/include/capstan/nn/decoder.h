#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/param.h>
#include <capstan/nn/model.h>
#include <capstan/nn/weight.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// The facts of a decoder whose options have the usual names: vocab_size, seq_length, hidden_size, num_layers,
/// num_heads, and kv_heads() where key heads may be fewer.
template <class Options>
ModelFacts decoder_facts(const Options& options, double attention_dropout) {
  ModelFacts facts;
  facts.vocab_size = options.vocab_size;
  facts.max_positions = options.seq_length;
  facts.hidden_size = options.hidden_size;
  facts.num_layers = options.num_layers;
  facts.num_heads = options.num_heads;
  if constexpr (requires { options.kv_heads(); }) facts.num_kv_heads = options.kv_heads();
  facts.attention_dropout = attention_dropout > 0;
  return facts;
}

/// The units of a decoder: the token table (a record named `tokens`, [vocab_size, hidden_size]), num_layers blocks, and
/// the head, on the same table where tie_word_embeddings says so, else on one of its own, "lm_head.weight".
template <class EmbeddingUnit, class Block, class Head, class Options>
std::vector<std::unique_ptr<Unit>> decoder_units(const Options& options, const std::string& tokens) {
  const auto make_table = [&](const std::string& name) {
    return std::make_shared<Weight>(std::vector<layout::Param>{
        record(name, {options.vocab_size, options.hidden_size}, layout::Init::normal(options.init_std), true)});
  };
  const auto table = make_table(tokens);
  std::vector<std::unique_ptr<Unit>> units;
  if constexpr (std::is_constructible_v<EmbeddingUnit, const Options&, const WeightPtr&>) {
    units.push_back(std::make_unique<EmbeddingUnit>(options, table));
  } else {
    units.push_back(std::make_unique<EmbeddingUnit>(table));
  }
  for (std::int64_t i = 0; i < options.num_layers; ++i) units.push_back(std::make_unique<Block>(options, i));
  units.push_back(std::make_unique<Head>(options, options.tie_word_embeddings ? table : make_table("lm_head.weight")));
  return units;
}

}  // namespace nn
CAPSTAN_END_NAMESPACE
