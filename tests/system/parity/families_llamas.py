"""SmolLM 3, Granite 3, OLMo 3 and GLM 4: Llamas with other choices in some or all blocks."""
import transformers
from transformers import (Glm4Config, Glm4ForCausalLM, GlmConfig, GlmForCausalLM, GraniteConfig, GraniteForCausalLM,
                          Olmo3Config, Olmo3ForCausalLM, SmolLM3Config, SmolLM3ForCausalLM)

VOCAB = 261


def of(model, config, **more):
    base = dict(vocab_size=VOCAB, hidden_size=48, intermediate_size=100, num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=False, pad_token_id=None,
                bos_token_id=None, eos_token_id=None)
    return model, config(**(base | more))


def smollm3(**more):
    return of(SmolLM3ForCausalLM, SmolLM3Config, **(dict(tie_word_embeddings=True) | more))


def granite(**more):
    return of(GraniteForCausalLM, GraniteConfig, **(dict(embedding_multiplier=3.0, residual_multiplier=0.22,
                                                         attention_multiplier=0.2, logits_scaling=8.0) | more))


def olmo3(**more):
    return of(Olmo3ForCausalLM, Olmo3Config, **(dict(sliding_window=5, rope_theta=5e5) | more))


def olmo3_of_base(theta, **more):
    """transformers 5.17 takes an older file's base only for full attention, so that it gets tables of its own."""
    table = {"rope_type": "default", "rope_theta": theta}
    tables = {"full_attention": dict(table), "sliding_attention": dict(table)}
    return olmo3(**(dict(rope_parameters=tables) if transformers.__version__ >= "5" else dict(rope_theta=theta)) | more)


def glm4(**more):
    return of(Glm4ForCausalLM, Glm4Config, **(dict(head_dim=12, eos_token_id=[256]) | more))


def yarn(**more):
    return {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16, **more}


CASES = {
    "smollm3": lambda: smollm3(num_hidden_layers=4, rope_theta=500.0),
    "smollm3-window": lambda: smollm3(no_rope_layers=[1, 0, 1], use_sliding_window=True, sliding_window=7,
                                      attention_bias=True, mlp_bias=True, tie_word_embeddings=False,
                                      rope_scaling=yarn()),
    "granite": lambda: granite(tie_word_embeddings=True, rope_theta=500.0),
    "granite-yarn": lambda: granite(num_key_value_heads=1, attention_bias=True, mlp_bias=True, logits_scaling=3.0,
                                    rope_scaling=yarn(attention_factor=1.3)),
    "olmo3": lambda: olmo3_of_base(500.0, num_hidden_layers=4),
    "olmo3-yarn": lambda: olmo3(attention_bias=True, sliding_window=7, rope_scaling=yarn(), layer_types=[
        "sliding_attention", "full_attention", "sliding_attention"]),
    "glm4": lambda: glm4(rope_theta=500.0),
    "glm": lambda: of(GlmForCausalLM, GlmConfig, head_dim=16, partial_rotary_factor=0.25, attention_bias=False,
                      tie_word_embeddings=True, eos_token_id=[256], rope_scaling=yarn(beta_fast=4.0, beta_slow=0.5)),
}
