#pragma once
#include <string>

namespace capstan::testing {

/// A tiny mixture of 4 experts of which each token sees 2, with a load-balancing loss that matters. 10 rows of ff on 4
/// ranks are uneven; the table is tied. The global batch is shared by 8 ranks in two micro-steps.
inline std::string mixture() {
  return "[model]\nplugin = \"mixtral\"\nvocab_size = 261\nhidden_size = 12\nnum_layers = 2\nnum_heads = 3\n"
         "num_kv_heads = 1\nff_dim = 10\nnum_experts = 4\nexperts_per_token = 2\nseq_length = 130\ninit_std = 0.2\n"
         "tie_word_embeddings = true\nrouter_aux_loss = true\nrouter_aux_loss_coef = 0.5\n"
         "[train]\nglobal_batch = 16\n";
}

inline std::string experts_on(int size) { return "[strategy.expert_parallel]\nsize = " + std::to_string(size) + "\n"; }

}  // namespace capstan::testing
