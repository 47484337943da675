"""The tiny models of models.py: one class and configuration of transformers for each case.

A group of families has a module of its own, families_<group>.py, with CASES as here; it is named in GROUPS.
"""
import importlib

import transformers
from transformers import (BloomConfig, BloomForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM,
                          MistralConfig, MistralForCausalLM, MixtralConfig, MixtralForCausalLM, Olmo2Config,
                          Olmo2ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM,
                          Qwen3MoeConfig, Qwen3MoeForCausalLM)

VOCAB = 261


def gpt2(**more):
    base = dict(vocab_size=VOCAB, n_positions=130, n_embd=48, n_layer=3, n_head=4, n_inner=160, resid_pdrop=0.0,
                embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel, GPT2Config(**(base | more))


def bloom(**more):
    base = dict(vocab_size=VOCAB, hidden_size=48, n_layer=3, n_head=4, hidden_dropout=0.0, attention_dropout=0.0)
    return BloomForCausalLM, BloomConfig(**(base | more))


def llama(model=LlamaForCausalLM, config=LlamaConfig, **more):
    base = dict(vocab_size=VOCAB, hidden_size=48, intermediate_size=100, num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=4, max_position_embeddings=130, tie_word_embeddings=False)
    return model, config(**(base | more))


def mixtral(**more):
    return llama(MixtralForCausalLM, MixtralConfig, **(dict(num_key_value_heads=2, intermediate_size=36,
                                                            num_local_experts=5, num_experts_per_tok=2) | more))


def qwen3(**more):
    return llama(Qwen3ForCausalLM, Qwen3Config, **(dict(num_key_value_heads=2, head_dim=14) | more))


def qwen3_moe(**more):
    return llama(Qwen3MoeForCausalLM, Qwen3MoeConfig, **(dict(num_key_value_heads=2, head_dim=14, num_experts=5,
                                                              moe_intermediate_size=36, num_experts_per_tok=2) | more))


def olmo2(**more):
    # No padding token: PyTorch's table would keep its row as it is, token 1's by default.
    return llama(Olmo2ForCausalLM, Olmo2Config, **(dict(num_key_value_heads=2, pad_token_id=None, eos_token_id=None)
                                                   | more))


def scaling(kind, **more):
    return {"rope_type": kind, "factor": 8.0, **more}


CASES = {
    "gpt2": lambda: gpt2(),
    "gpt2-untied": lambda: gpt2(n_inner=None, activation_function="gelu", tie_word_embeddings=False),
    "bloom": lambda: bloom(),
    "bloom-6-heads": lambda: bloom(hidden_size=30, n_head=6, n_layer=2, apply_residual_connection_post_layernorm=True,
                                   tie_word_embeddings=False),
    "llama": lambda: llama(rms_norm_eps=1e-5),
    "llama-3.1": lambda: llama(num_key_value_heads=2, rope_theta=500.0, rope_scaling=scaling(
        "llama3", low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)),
    "llama-3.2": lambda: llama(num_key_value_heads=1, tie_word_embeddings=True, hidden_size=28, head_dim=14,
                               intermediate_size=67, num_hidden_layers=2, num_attention_heads=4),
    "llama-biases": lambda: llama(num_key_value_heads=2, attention_bias=True, mlp_bias=True,
                                  rope_scaling=scaling("linear")),
    "mistral": lambda: llama(MistralForCausalLM, MistralConfig, num_key_value_heads=1, sliding_window=None),
    "mistral-window": lambda: llama(MistralForCausalLM, MistralConfig, num_key_value_heads=1, sliding_window=7),
    "qwen2": lambda: llama(Qwen2ForCausalLM, Qwen2Config, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen2-window": lambda: llama(Qwen2ForCausalLM, Qwen2Config, num_key_value_heads=2, use_sliding_window=True,
                                  sliding_window=12, max_window_layers=1),
    "llama-yarn": lambda: llama(num_key_value_heads=2, max_position_embeddings=128, rope_scaling=scaling(
        "yarn", original_max_position_embeddings=16)),
    "mixtral": lambda: mixtral(),
    "mixtral-aux": lambda: mixtral(output_router_logits=True, router_aux_loss_coef=0.3, num_local_experts=3,
                                   num_experts_per_tok=1, num_key_value_heads=4, tie_word_embeddings=True),
    "mixtral-top-3": lambda: mixtral(output_router_logits=True, router_aux_loss_coef=0.1, num_experts_per_tok=3,
                                     num_key_value_heads=1, hidden_size=36, head_dim=10),
    "mixtral-window": lambda: mixtral(sliding_window=5),
    "qwen3": lambda: qwen3(rope_theta=500.0, tie_word_embeddings=True),
    "qwen3-window": lambda: qwen3(use_sliding_window=True, sliding_window=4, layer_types=[
        "sliding_attention", "full_attention", "sliding_attention"]),
    "qwen3-yarn": lambda: qwen3(max_position_embeddings=128, rope_theta=500.0, rope_scaling=scaling(
        "yarn", original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5, attention_factor=1.3)),
    "qwen3-biases": lambda: qwen3(num_key_value_heads=1, attention_bias=True, rope_scaling=scaling("linear")),
    "qwen3-moe": lambda: qwen3_moe(),
    "qwen3-moe-aux": lambda: qwen3_moe(norm_topk_prob=True, output_router_logits=True, router_aux_loss_coef=0.3,
                                       num_experts_per_tok=3, tie_word_embeddings=True),
    "qwen3-moe-window": lambda: qwen3_moe(use_sliding_window=True, sliding_window=9),
    "qwen3-moe-dense": lambda: qwen3_moe(num_hidden_layers=4, decoder_sparse_step=2, mlp_only_layers=[3],
                                         output_router_logits=True, router_aux_loss_coef=0.3),
    "olmo2": lambda: olmo2(rope_theta=500.0),
    "olmo2-biases": lambda: olmo2(num_key_value_heads=4, attention_bias=True, tie_word_embeddings=True),
}


ON_GPU = {
    "gpt2": lambda: gpt2(n_embd=512, n_inner=2048, n_layer=6, n_head=8),
    "bloom": lambda: bloom(hidden_size=512, n_layer=6, n_head=8),
    "llama": lambda: llama(num_key_value_heads=2, hidden_size=512, intermediate_size=1408, num_hidden_layers=6,
                           num_attention_heads=8, rope_theta=500.0),
    "mixtral": lambda: mixtral(hidden_size=512, intermediate_size=704, num_hidden_layers=6, num_attention_heads=8,
                               num_local_experts=8),
}

GROUPS = ("neox_phi_ministral", "gemma", "gpt_oss", "grouped", "qwen3_5", "llamas", "others", "recent", "mixtures", "wrappers")
for group in GROUPS:
    CASES.update(importlib.import_module("families_" + group).CASES)
