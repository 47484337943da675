"""Gemma 1, StarCoder 2, OLMoE, Seed-OSS, EXAONE 4, Cohere's two and Granite's mixtures."""
from transformers import (Cohere2Config, Cohere2ForCausalLM, CohereConfig, CohereForCausalLM, Exaone4Config,
                          Exaone4ForCausalLM, GemmaConfig, GemmaForCausalLM, GraniteMoeConfig, GraniteMoeForCausalLM,
                          GraniteMoeSharedConfig, GraniteMoeSharedForCausalLM, OlmoeConfig, OlmoeForCausalLM,
                          SeedOssConfig, SeedOssForCausalLM, Starcoder2Config, Starcoder2ForCausalLM)

from families_llamas import of, yarn


def gemma(**more):
    return of(GemmaForCausalLM, GemmaConfig, **(dict(num_hidden_layers=2, num_key_value_heads=1, head_dim=14,
                                                     tie_word_embeddings=True) | more))


def starcoder2(**more):
    return of(Starcoder2ForCausalLM, Starcoder2Config, **(dict(
        num_hidden_layers=2, sliding_window=7, rope_theta=500.0, tie_word_embeddings=True) | more))


def olmoe(**more):
    return of(OlmoeForCausalLM, OlmoeConfig, **(dict(num_hidden_layers=2, intermediate_size=36, num_experts=5,
                                                     num_experts_per_tok=2) | more))


def seed_oss(**more):
    return of(SeedOssForCausalLM, SeedOssConfig, **(dict(num_hidden_layers=2, head_dim=14, attention_dropout=0.0,
                                                         residual_dropout=0.0) | more))


def exaone4(**more):
    return of(Exaone4ForCausalLM, Exaone4Config, **(dict(
        sliding_window=7, layer_types=["sliding_attention", "full_attention", "sliding_attention"]) | more))


def cohere(model=CohereForCausalLM, config=CohereConfig, **more):
    return of(model, config, **(dict(num_hidden_layers=2, logit_scale=0.25, tie_word_embeddings=True) | more))


def cohere2(**more):
    return cohere(Cohere2ForCausalLM, Cohere2Config, **(dict(
        num_hidden_layers=3, sliding_window=7,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"]) | more))


def granite_moe(model=GraniteMoeForCausalLM, config=GraniteMoeConfig, **more):
    return of(model, config, **(dict(num_hidden_layers=2, intermediate_size=36, num_local_experts=5,
                                     num_experts_per_tok=2, embedding_multiplier=3.0, residual_multiplier=0.22,
                                     attention_multiplier=0.2, logits_scaling=3.0) | more))


def granite_moe_shared(**more):
    return granite_moe(GraniteMoeSharedForCausalLM, GraniteMoeSharedConfig, **(dict(shared_intermediate_size=28) | more))


CASES = {
    "gemma": lambda: gemma(),
    "starcoder2": lambda: starcoder2(),
    "starcoder2-plain": lambda: starcoder2(use_bias=False, sliding_window=None, tie_word_embeddings=False),
    "olmoe": lambda: olmoe(attention_bias=True, output_router_logits=True, router_aux_loss_coef=0.3),
    "seed-oss": lambda: seed_oss(attention_out_bias=True, mlp_bias=True),
    "exaone4": lambda: exaone4(rope_scaling=yarn()),
    "exaone4-global": lambda: exaone4(num_hidden_layers=2, sliding_window=None, layer_types=["full_attention"] * 2,
                                      tie_word_embeddings=True),
    "cohere2": lambda: cohere2(),
    "cohere": lambda: cohere(attention_bias=True, num_key_value_heads=4),
    "granite-moe": lambda: granite_moe(tie_word_embeddings=True),  # transformers 5.17 records no logits for their loss
    "granite-moe-shared": lambda: granite_moe_shared(attention_bias=True),
}
