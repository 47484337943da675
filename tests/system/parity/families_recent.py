"""HunYuan, dots.llm1, ERNIE 4.5's two, Nemotron, StableLM, Apertus, Phi 1 and 2, and GPT-J."""
from transformers import (ApertusConfig, ApertusForCausalLM, Dots1Config, Dots1ForCausalLM, Ernie4_5_MoeConfig, Ernie4_5_MoeForCausalLM, Ernie4_5Config,
                          Ernie4_5ForCausalLM, GPTJConfig, GPTJForCausalLM, HunYuanDenseV1Config, HunYuanDenseV1ForCausalLM, NemotronConfig,
                          NemotronForCausalLM, PhiConfig, PhiForCausalLM, StableLmConfig, StableLmForCausalLM)

from families_llamas import VOCAB, of


def two(model, config, **more):
    return of(model, config, **(dict(num_hidden_layers=2) | more))


def hunyuan(**more):
    return two(HunYuanDenseV1ForCausalLM, HunYuanDenseV1Config, **(dict(head_dim=14) | more))


def dots1(**more):
    return of(Dots1ForCausalLM, Dots1Config, **(dict(
        n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=20, n_shared_experts=2, first_k_dense_replace=1,
        n_group=2, topk_group=1, norm_topk_prob=True, routed_scaling_factor=2.5, sliding_window=7, max_window_layers=1)
        | more))


def ernie4_5(**more):
    return two(Ernie4_5ForCausalLM, Ernie4_5Config, **(dict(head_dim=14, tie_word_embeddings=True) | more))


def ernie4_5_moe(**more):
    return two(Ernie4_5_MoeForCausalLM, Ernie4_5_MoeConfig, **(dict(
        moe_num_experts=6, moe_k=2, moe_intermediate_size=20, moe_num_shared_experts=2,
        tie_word_embeddings=True) | more))


def nemotron(**more):
    return two(NemotronForCausalLM, NemotronConfig, **(dict(head_dim=12) | more))


def stablelm(**more):
    return two(StableLmForCausalLM, StableLmConfig, **(dict(partial_rotary_factor=0.5) | more))


def apertus(**more):
    """transformers 4 holds the numbers of its function in bfloat16, whatever the model's dtype."""
    table = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
             "original_max_position_embeddings": 16}
    return two(ApertusForCausalLM, ApertusConfig, **(dict(rope_scaling=table, rope_theta=500.0) | more))


def phi(**more):
    return two(PhiForCausalLM, PhiConfig, **more)


def gptj(**more):
    return GPTJForCausalLM, GPTJConfig(**(dict(
        vocab_size=VOCAB, n_embd=48, n_layer=2, n_head=4, n_positions=128, rotary_dim=4, bos_token_id=None,
        eos_token_id=None) | more))


CASES = {
    "hunyuan": lambda: hunyuan(attention_bias=True, tie_word_embeddings=True),
    "hunyuan-dynamic": lambda: hunyuan(rope_scaling={"rope_type": "dynamic", "alpha": 6.0, "factor": 1.0}),
    "dots1": lambda: dots1(attention_bias=True),
    "ernie4.5": lambda: ernie4_5(use_bias=True),
    "ernie4.5-moe": lambda: ernie4_5_moe(),
    "nemotron": lambda: nemotron(attention_bias=True, mlp_bias=True),
    "stablelm": lambda: stablelm(use_qkv_bias=True),
    "stablelm-parallel": lambda: stablelm(use_parallel_residual=True, tie_word_embeddings=True),
    "apertus": lambda: apertus(attention_bias=True),
    "phi": lambda: phi(partial_rotary_factor=0.5),
    "phi-grouped": lambda: phi(num_key_value_heads=2, partial_rotary_factor=1.0),
    "gptj": lambda: gptj(),
    "gptj-wide": lambda: gptj(n_inner=40, rotary_dim=8, tie_word_embeddings=True),
}
