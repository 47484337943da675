#include <capstan/nn/layer_norm_options.h>

namespace capstan::nn {

DecoderSpec LayerNormOptions::spec() const {
  DecoderSpec made;
  made.vocab_size = vocab_size;
  made.hidden_size = hidden_size;
  made.num_layers = num_layers;
  made.max_positions = seq_length;
  made.ff_dim = 4 * hidden_size;
  made.heads = {num_heads, num_heads, hidden_size / num_heads};
  made.norm = DecoderSpec::Norm::layer;
  made.norm_epsilon = layer_norm_epsilon;
  made.qkv_bias = made.projection_bias = made.mlp_bias = true;
  made.mlp = {Activation::gelu_tanh, false};
  made.tied_head = tie_word_embeddings;
  made.dropout = dropout;
  made.init_std = init_std;
  made.names.block = "h.";
  made.names.norm = "ln_f";
  made.names.prefix = "transformer.";
  return made;
}

}  // namespace capstan::nn
