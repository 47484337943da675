"""Qwen 3.5's text models, dense and a mixture, and Qwen 3 Next: blocks of the gated delta rule, and of attention with
a gate."""
import transformers

from families import VOCAB

CASES = {}
if hasattr(transformers, "Qwen3_5ForCausalLM"):
    from transformers import (Qwen3_5ForCausalLM, Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig, Qwen3_5TextConfig,
                              Qwen3NextConfig, Qwen3NextForCausalLM)

    def qwen3_5(model=Qwen3_5ForCausalLM, config=Qwen3_5TextConfig, **more):
        base = dict(vocab_size=VOCAB, hidden_size=48, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=16, max_position_embeddings=130, linear_num_key_heads=2,
                    linear_num_value_heads=4, linear_key_head_dim=6, linear_value_head_dim=10,
                    layer_types=["linear_attention", "full_attention", "linear_attention"],
                    rms_norm_eps=1e-3)  # a state's first results are small, and their norm amplifies float32's rounding
        return model, config(**(base | more))

    def dense(**more):
        return qwen3_5(**(dict(intermediate_size=100, rope_parameters={
            "rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.25}) | more))

    def mixture(model=Qwen3_5MoeForCausalLM, config=Qwen3_5MoeTextConfig, **more):
        base = dict(moe_intermediate_size=36, shared_expert_intermediate_size=28, num_experts=5, num_experts_per_tok=2)
        return qwen3_5(model, config, **(base | more))

    def qwen3_next(**more):
        return mixture(Qwen3NextForCausalLM, Qwen3NextConfig, **(dict(tie_word_embeddings=False) | more))

    CASES = {
        "qwen3.5": lambda: dense(),
        "qwen3.5-moe": lambda: mixture(tie_word_embeddings=True, output_router_logits=True, router_aux_loss_coef=0.3),
        "qwen3-next": lambda: qwen3_next(num_experts_per_tok=3),
    }
