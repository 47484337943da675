#pragma once
// The model families at tiny sizes, for matrices of layouts over capstan::testing::train.
#include <string>
#include <vector>

namespace capstan::testing {

/// A model with what splitting may meet: two blocks, an odd vocabulary and feed-forward width, dropout.
struct Family {
  std::string plugin;
  std::string options;       ///< TOML in [model]
  std::string dropout = {};  ///< more of it, for cases that want dropout too
};

/// Four query heads each; llama's two key heads are fewer than four ranks, mixtral's one fewer than two.
inline const std::vector<Family>& families() {
  static const std::vector<Family> list{
      {"gpt", "hidden_size = 16\nnum_heads = 4\nff_dim = 22\ndropout = 0.1\n"},
      {"bloom", "hidden_size = 16\nnum_heads = 4\ndropout = 0.1\nattention_dropout = 0.1\n"},
      {"llama",
       "hidden_size = 16\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 22\nattention_bias = true\nmlp_bias = true\n"
       "attention_dropout = 0.1\ntie_word_embeddings = true\n"},
      {"qwen3",
       "hidden_size = 16\nnum_heads = 4\nnum_kv_heads = 2\nhead_dim = 6\nff_dim = 22\nattention_dropout = 0.1\n"
       "tie_word_embeddings = true\n"},
      {"olmo2", "hidden_size = 16\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 22\nattention_dropout = 0.1\n"},
      {"qwen3",
       "model_type = \"qwen3_moe\"\nhidden_size = 16\nnum_heads = 4\nnum_kv_heads = 1\nhead_dim = 6\nexpert_dim = 10\n"
       "num_experts = 4\nattention_dropout = 0.1\nrouter_aux_loss = true\nrouter_aux_loss_coef = 0.5\n"},
      {"mixtral",
       "hidden_size = 16\nnum_heads = 4\nnum_kv_heads = 1\nff_dim = 10\nnum_experts = 4\nattention_dropout = 0.1\n"
       "router_aux_loss = true\nrouter_aux_loss_coef = 0.5\n"},
  };
  return list;
}

/// Eight query heads and fewer key heads, for eight ranks that split them: each key head on four or on two of them. Of
/// the widths of 22 the last rank has one row.
inline const Family& llama_of_eight_heads() {
  static const Family family{
      "llama",
      "hidden_size = 16\nnum_heads = 8\nnum_kv_heads = 2\nff_dim = 22\nattention_bias = true\nmlp_bias = true\n"
      "attention_dropout = 0.1\ntie_word_embeddings = true\n"};
  return family;
}
inline const Family& mixtral_of_eight_heads() {
  static const Family family{
      "mixtral",
      "hidden_size = 16\nnum_heads = 8\nnum_kv_heads = 4\nff_dim = 22\nnum_experts = 4\nattention_dropout = 0.1\n"
      "router_aux_loss = true\nrouter_aux_loss_coef = 0.5\n"};
  return family;
}

/// Odd sizes, so that no cut is even: three heads and experts on 2 and 3 ranks, 261 rows of the vocabulary.
inline const std::vector<Family>& odd_families() {
  static const std::vector<Family> list{
      {"gpt", "hidden_size = 12\nnum_heads = 3\nff_dim = 22\n", "dropout = 0.1\n"},
      {"bloom", "hidden_size = 12\nnum_heads = 3\n", "dropout = 0.1\nattention_dropout = 0.2\n"},
      {"llama", "hidden_size = 18\nnum_heads = 3\nnum_kv_heads = 1\nff_dim = 22\ntie_word_embeddings = true\n"},
      {"qwen3",
       "hidden_size = 18\nnum_heads = 3\nnum_kv_heads = 1\nhead_dim = 4\nff_dim = 22\ntie_word_embeddings = true\n"},
      {"olmo2", "hidden_size = 18\nnum_heads = 3\nff_dim = 22\n"},
      {"gpt_oss",
       "hidden_size = 18\nnum_heads = 3\nnum_kv_heads = 1\nhead_dim = 4\nff_dim = 10\nnum_experts = 3\n"
       "experts_per_token = 2\nsliding_window = 7\n"},
      {"mixtral",
       "hidden_size = 18\nnum_heads = 3\nff_dim = 10\nnum_experts = 3\nrouter_aux_loss = true\n"
       "router_aux_loss_coef = 0.5\n"},
  };
  return list;
}

/// Its [model] table.
inline std::string family_config(const Family& family, int seq_length = 24) {
  return "[model]\nplugin = \"" + family.plugin +
         "\"\nvocab_size = 261\nnum_layers = 2\nseq_length = " + std::to_string(seq_length) + "\ninit_std = 0.2\n" +
         family.options;
}

/// The same samples in each micro-step on any number of data ranks that divides 8, since a mixture's balancing loss is
/// over a micro-step of all of them.
inline const std::string same_micro_steps = "train.accumulation=3";

}  // namespace capstan::testing
