"""Mixtures with sigmoid routers: GLM 4 MoE and DeepSeek V3."""
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM, Glm4MoeConfig, Glm4MoeForCausalLM

VOCAB = 261


def glm4_moe(**more):
    base = dict(vocab_size=VOCAB, hidden_size=48, intermediate_size=60, num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=2, head_dim=14, max_position_embeddings=130, n_routed_experts=6,
                num_experts_per_tok=2, moe_intermediate_size=20, first_k_dense_replace=1, n_shared_experts=1,
                partial_rotary_factor=0.6, pad_token_id=None, bos_token_id=None, eos_token_id=None)
    return Glm4MoeForCausalLM, Glm4MoeConfig(**(base | more))


def deepseek_v3(model=DeepseekV3ForCausalLM, config=DeepseekV3Config, **more):
    base = dict(vocab_size=VOCAB, hidden_size=48, intermediate_size=60, num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=4, max_position_embeddings=130, n_routed_experts=8, num_experts_per_tok=3,
                moe_intermediate_size=20, first_k_dense_replace=1, n_group=4, topk_group=2, q_lora_rank=22,
                kv_lora_rank=18, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=12, pad_token_id=None,
                bos_token_id=None, eos_token_id=None)
    return model, config(**(base | more))


def yarn(**more):
    return dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=16, **more)


CASES = {
    "glm4-moe": lambda: glm4_moe(attention_bias=True),
    "glm4-moe-groups": lambda: glm4_moe(use_qk_norm=True, n_routed_experts=8, n_group=4, topk_group=2,
                                        num_experts_per_tok=3, routed_scaling_factor=2.5, n_shared_experts=2,
                                        norm_topk_prob=False, first_k_dense_replace=2),
    "deepseek-v3": lambda: deepseek_v3(max_position_embeddings=128, rope_scaling=yarn(mscale=0.7, mscale_all_dim=1.2)),
    "deepseek-v3-states": lambda: deepseek_v3(q_lora_rank=None, rope_interleave=False, attention_bias=True, n_group=1,
                                              topk_group=1, v_head_dim=16, rope_theta=500.0,
                                              tie_word_embeddings=True),
}
