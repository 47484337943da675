"""gpt-oss: sinks, windows in every other block, biases, experts with clamped gates, YaRN whose limits are not whole."""
import transformers


def gpt_oss(**more):
    base = dict(vocab_size=261, hidden_size=48, intermediate_size=36, num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=2, head_dim=14, num_local_experts=5, num_experts_per_tok=2, sliding_window=5,
                max_position_embeddings=130, pad_token_id=None)
    return transformers.GptOssForCausalLM, transformers.GptOssConfig(**(base | more))


YARN = dict(rope_type="yarn", factor=8.0, beta_fast=4.0, beta_slow=0.5, truncate=False,
            original_max_position_embeddings=16)

CASES = {
    "gpt-oss": lambda: gpt_oss(max_position_embeddings=128, rope_theta=500.0, rope_scaling=dict(YARN)),
    # transformers 4 takes the loss of what its routers chose, and not of all that they scored.
    "gpt-oss-aux": lambda: gpt_oss(max_position_embeddings=128, num_key_value_heads=1, num_experts_per_tok=3,
                                   output_router_logits=True, router_aux_loss_coef=0.3, tie_word_embeddings=True,
                                   attention_bias=False, rope_theta=500.0, rope_scaling=dict(YARN, truncate=True),
                                   layer_types=["full_attention", "sliding_attention", "full_attention"]),
}
if not hasattr(transformers, "GptOssConfig"):
    CASES = {}
