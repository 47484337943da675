"""Gemma's families."""
import transformers

VOCAB = 261

# No padding token: PyTorch's table would keep its row as it is, token 0's by default.
BASE = dict(vocab_size=VOCAB, hidden_size=48, intermediate_size=100, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, head_dim=14, max_position_embeddings=130, pad_token_id=None, eos_token_id=None,
            sliding_window=7)


def gemma2(**more):
    return transformers.Gemma2ForCausalLM, transformers.Gemma2Config(
        **(BASE | dict(query_pre_attn_scalar=20, attn_logit_softcapping=2.0, final_logit_softcapping=3.0) | more))


def gemma3(**more):
    # transformers 4 has the rotary bases of the two kinds of blocks in keys of their own, transformers 5 in tables.
    if int(transformers.__version__.split(".")[0]) >= 5:
        rope = {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 40.0}}
        rope = {"rope_parameters": rope}
    else:
        rope = {"rope_theta": 500.0, "rope_local_base_freq": 40.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    return transformers.Gemma3ForCausalLM, transformers.Gemma3TextConfig(
        **(BASE | dict(query_pre_attn_scalar=20, sliding_window_pattern=2) | rope | more))


def gemma4(**more):
    # Two blocks use the keys and values of earlier ones. Six blocks are chaotic: 20 steps in transformers itself make
    # 1e-5 of a change of 1e-14.
    local, whole = "sliding_attention", "full_attention"
    rope = {whole: {"rope_type": "proportional", "partial_rotary_factor": 0.3, "rope_theta": 500.0},
            local: {"rope_type": "default", "rope_theta": 40.0}}
    return transformers.Gemma4ForCausalLM, transformers.Gemma4TextConfig(
        **(BASE | dict(num_hidden_layers=4, layer_types=[local, whole, local, whole], rope_parameters=rope,
                       global_head_dim=20, num_global_key_value_heads=1, attention_k_eq_v=True, num_kv_shared_layers=2,
                       use_double_wide_mlp=True, hidden_size_per_layer_input=6, vocab_size_per_layer_input=VOCAB,
                       final_logit_softcapping=3.0) | more))


CASES = {
    "gemma2": lambda: gemma2(),
    "gemma2-biases": lambda: gemma2(attention_bias=True, attn_logit_softcapping=None, final_logit_softcapping=None,
                                    tie_word_embeddings=False, layer_types=["full_attention", "sliding_attention",
                                                                            "sliding_attention"]),
    "gemma3": lambda: gemma3(),
    "gemma3-capped": lambda: gemma3(final_logit_softcapping=3.0, num_hidden_layers=2, num_key_value_heads=4,
                                    sliding_window_pattern=6),
}
if hasattr(transformers, "Gemma4ForCausalLM"):
    CASES |= {
        "gemma4": lambda: gemma4(),
        "gemma4-plain": lambda: gemma4(num_hidden_layers=2, layer_types=["sliding_attention", "full_attention"],
                                       num_kv_shared_layers=0, hidden_size_per_layer_input=0, attention_k_eq_v=False,
                                       final_logit_softcapping=None, attention_bias=True),
    }
