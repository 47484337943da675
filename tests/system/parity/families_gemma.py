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
    # Two blocks use the keys and values of earlier ones. With inputs of blocks besides, 20 steps are chaotic: those of
    # transformers itself make 1e-5 of a change of 1e-14 in a model of six blocks. So another case has these.
    local, whole = "sliding_attention", "full_attention"
    rope = {whole: {"rope_type": "proportional", "partial_rotary_factor": 0.3, "rope_theta": 500.0},
            local: {"rope_type": "default", "rope_theta": 40.0}}
    return transformers.Gemma4ForCausalLM, transformers.Gemma4TextConfig(
        **(BASE | dict(num_hidden_layers=4, layer_types=[local, whole, local, whole], rope_parameters=rope,
                       global_head_dim=20, num_global_key_value_heads=1, attention_k_eq_v=True, num_kv_shared_layers=2,
                       use_double_wide_mlp=True, hidden_size_per_layer_input=0, vocab_size_per_layer_input=VOCAB,
                       final_logit_softcapping=3.0) | more))


def gemma4_experts(**more):
    # Experts beside the feed-forward layers, in blocks with keys of their own, as published.
    return gemma4(**(dict(num_hidden_layers=3, num_kv_shared_layers=0, use_double_wide_mlp=False, enable_moe_block=True,
                          layer_types=["sliding_attention", "sliding_attention", "full_attention"], num_experts=5,
                          top_k_experts=2, moe_intermediate_size=36) | more))


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
        "gemma4-inputs": lambda: gemma4(num_hidden_layers=2, layer_types=["sliding_attention", "full_attention"],
                                       num_kv_shared_layers=0, hidden_size_per_layer_input=6, attention_k_eq_v=False,
                                       final_logit_softcapping=None, attention_bias=True),
        "gemma4-experts": lambda: gemma4_experts(),
        # The feed-forward layers of blocks that use earlier ones' keys are twice as wide, and experts are not.
        "gemma4-experts-sharing": lambda: gemma4_experts(num_kv_shared_layers=1, use_double_wide_mlp=True, top_k_experts=3,
                                                         layer_types=["sliding_attention", "full_attention",
                                                                      "full_attention"]),
    }
