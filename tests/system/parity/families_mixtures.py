"""MiniMax M2, DeepSeek V2, GLM-4.7-Flash and Qwen 2's mixtures."""
import transformers
from transformers import DeepseekV2Config, DeepseekV2ForCausalLM, Qwen2MoeConfig, Qwen2MoeForCausalLM

from families_grouped import deepseek_v3, yarn
from families_llamas import of


def deepseek_v2(**more):
    """One class of routers; q_lora_rank=None as the published Lite has it."""
    return deepseek_v3(model=DeepseekV2ForCausalLM, config=DeepseekV2Config, **(dict(
        n_group=1, topk_group=1, n_shared_experts=2, routed_scaling_factor=1.7, q_lora_rank=None) | more))


def qwen2_moe(**more):
    return of(Qwen2MoeForCausalLM, Qwen2MoeConfig, **(dict(
        moe_intermediate_size=36, shared_expert_intermediate_size=28, num_experts=5, num_experts_per_tok=2) | more))


CASES = {
    "deepseek-v2": lambda: deepseek_v2(max_position_embeddings=128, rope_scaling=yarn(mscale=0.7, mscale_all_dim=0.7)),
    "deepseek-v2-latent": lambda: deepseek_v2(q_lora_rank=22, attention_bias=True, rope_theta=500.0,
                                              tie_word_embeddings=True, first_k_dense_replace=0),
    "qwen2-moe": lambda: qwen2_moe(num_hidden_layers=2, norm_topk_prob=True),
    "qwen2-moe-dense": lambda: qwen2_moe(mlp_only_layers=[1], qkv_bias=False, output_router_logits=True,
                                         router_aux_loss_coef=0.3, tie_word_embeddings=True),
}
if transformers.__version__ >= "5":
    from transformers import Glm4MoeLiteConfig, Glm4MoeLiteForCausalLM, MiniMaxM2Config, MiniMaxM2ForCausalLM

    def minimax_m2(**more):
        return of(MiniMaxM2ForCausalLM, MiniMaxM2Config, **(dict(
            num_hidden_layers=2, intermediate_size=20, head_dim=16, num_local_experts=6, num_experts_per_tok=2,
            rope_parameters={"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5}) | more))

    def glm4_moe_lite(**more):
        return deepseek_v3(model=Glm4MoeLiteForCausalLM, config=Glm4MoeLiteConfig, **(dict(
            n_group=1, topk_group=1, rms_norm_eps=1e-5, routed_scaling_factor=1.8) | more))

    CASES |= {
        "minimax-m2": lambda: minimax_m2(),
        "minimax-m2-whole": lambda: minimax_m2(num_key_value_heads=1, tie_word_embeddings=True,
                                               rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
        "glm4-moe-lite": lambda: glm4_moe_lite(),
        "glm4-moe-lite-listed": lambda: glm4_moe_lite(mlp_layer_types=["sparse", "dense", "sparse"], attention_bias=True,
                                                      n_group=2, q_lora_rank=None),
    }
