"""GPT-NeoX, Phi-3 and Ministral 3: rotary positions of part of a head, LongRoPE, queries that grow with their position."""
import torch
import transformers
from transformers import (GPTNeoXConfig, GPTNeoXForCausalLM, MinistralConfig, MinistralForCausalLM, Phi3Config,
                          Phi3ForCausalLM)

VOCAB = 261


def gpt_neox(**more):
    base = dict(vocab_size=VOCAB, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=100,
                max_position_embeddings=130, rotary_pct=0.5, bos_token_id=None, eos_token_id=None)
    return GPTNeoXForCausalLM, GPTNeoXConfig(**(base | more))


def phi3(**more):
    base = dict(vocab_size=VOCAB, hidden_size=48, intermediate_size=100, num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=130, pad_token_id=None, bos_token_id=None,
                eos_token_id=None)
    return Phi3ForCausalLM, Phi3Config(**(base | more))


def longrope(pairs, **more):
    """Its three keys are all that transformers 4 takes."""
    return {"type": "longrope", "short_factor": [1 + 0.25 * i for i in range(pairs)],
            "long_factor": [1 + 1.5 * i * i for i in range(pairs)], **more}


def ministral3(**more):
    from transformers import Ministral3Config, Ministral3ForCausalLM
    base = dict(vocab_size=VOCAB, hidden_size=48, intermediate_size=100, num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=2, head_dim=14, max_position_embeddings=128, pad_token_id=None, bos_token_id=None,
                eos_token_id=None, rope_parameters={
                    "type": "yarn", "rope_theta": 500.0, "factor": 32.0, "original_max_position_embeddings": 4,
                    "max_position_embeddings": 128, "beta_fast": 4.0, "beta_slow": 0.25, "mscale": 1.0,
                    "mscale_all_dim": 0.5, "llama_4_scaling_beta": 0.3})
    return Ministral3ForCausalLM, Ministral3Config(**(base | more))


def ministral(**more):
    base = dict(vocab_size=VOCAB, hidden_size=48, intermediate_size=100, num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=2, head_dim=14, max_position_embeddings=130, bos_token_id=None, eos_token_id=None,
                sliding_window=5, layer_types=["sliding_attention", "full_attention", "sliding_attention"])
    return MinistralForCausalLM, MinistralConfig(**(base | more))


def in_the_dtype_asked_for():
    """transformers divides whole positions, which gives float32 in a float64 model too."""
    from transformers.models.ministral3 import modeling_ministral3

    def scale(positions, beta, length):
        return (1 + beta * torch.log(1 + torch.floor(positions.float() / length)))[:, None, :, None]

    modeling_ministral3.get_llama_4_attn_scale = scale


CASES = {
    "gpt_neox": lambda: gpt_neox(),
    "gpt_neox-in-turn": lambda: gpt_neox(hidden_size=64, use_parallel_residual=False, rotary_pct=1.0, rotary_emb_base=500,
                                         hidden_act="gelu_new", attention_bias=False, tie_word_embeddings=True),
    "phi3": lambda: phi3(sliding_window=7),
    # transformers goes by the length of each batch, Capstan by model.seq_length; here both mean the short factors, ...
    "phi3-short": lambda: phi3(partial_rotary_factor=0.75, tie_word_embeddings=True, rope_scaling=longrope(6),
                               hidden_size=64, original_max_position_embeddings=100),
    "ministral": lambda: ministral(),
}
if hasattr(transformers, "Ministral3ForCausalLM"):
    in_the_dtype_asked_for()
    CASES |= {
        # ... and here the long ones: position 0 does not turn, and every later one is past the original length.
        "phi3-long": lambda: phi3(partial_rotary_factor=0.75, hidden_size=64, original_max_position_embeddings=1,
                                  rope_parameters=longrope(6, attention_factor=1.2)),
        "ministral3": lambda: ministral3(),
        "ministral3-window": lambda: ministral3(sliding_window=6, tie_word_embeddings=True),
    }
