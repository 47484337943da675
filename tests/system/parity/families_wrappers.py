"""Text models inside of models that read images too: what Capstan trains of them is the text model.

The towers are as small as their classes allow, and no image goes into them.
"""
import transformers

VOCAB = 261


def mistral3(text=None, **more):
    from transformers import Mistral3Config, Mistral3ForConditionalGeneration
    more = dict(tie_word_embeddings=False) | more
    mistral = dict(model_type="mistral", vocab_size=VOCAB, hidden_size=48, intermediate_size=100, num_hidden_layers=3,
                   num_attention_heads=4, num_key_value_heads=2, head_dim=14, max_position_embeddings=130,
                   sliding_window=None, tie_word_embeddings=more["tie_word_embeddings"])
    vision = dict(model_type="pixtral", hidden_size=16, intermediate_size=24, num_hidden_layers=1,
                  num_attention_heads=2, image_size=28, patch_size=14, head_dim=8)
    return Mistral3ForConditionalGeneration, Mistral3Config(vision_config=vision, text_config=text or mistral, **more)


def ministral3():
    from families_neox_phi_ministral import ministral3 as text
    return mistral3(text()[1].to_dict())


def gemma3():
    from families_gemma import gemma3 as text
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration
    vision = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=28,
                  patch_size=14)
    return Gemma3ForConditionalGeneration, Gemma3Config(text_config=text()[1].to_dict(), vision_config=vision,
                                                        mm_tokens_per_image=4, image_token_index=VOCAB - 1)


def gemma4():
    from families_gemma import gemma4_experts as text
    from transformers import Gemma4Config, Gemma4ForConditionalGeneration
    vision = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
                  num_key_value_heads=2, head_dim=8, patch_size=4, position_embedding_size=8)
    # The class needs a padding token, whose row PyTorch's table does not train: one more than any sample has.
    # Each token goes to all experts: 20 steps in float32 would else round some token to another one.
    padded = text(vocab_size=VOCAB + 1, pad_token_id=VOCAB, top_k_experts=5)[1].to_dict()
    return Gemma4ForConditionalGeneration, Gemma4Config(text_config=padded, vision_config=vision)


def qwen3_5():
    from families_qwen3_5 import CASES as text
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration
    vision = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, out_hidden_size=48, patch_size=14)
    return Qwen3_5ForConditionalGeneration, Qwen3_5Config(text_config=text["qwen3.5"]()[1].to_dict(), vision_config=vision)


def qwen3_vl(**more):
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
    rope = {"rope_type": "default", "mrope_section": [4, 2, 2], "mrope_interleaved": True}
    text = dict(vocab_size=VOCAB, hidden_size=48, intermediate_size=100, num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=2, head_dim=16, max_position_embeddings=130, pad_token_id=None)
    text |= dict(rope_parameters=rope | {"rope_theta": 500.0}) if transformers.__version__ >= "5" else dict(rope_scaling=rope, rope_theta=500.0)
    vision = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, out_hidden_size=48, patch_size=14,
                  num_position_embeddings=16, deepstack_visual_indexes=[0])
    return Qwen3VLForConditionalGeneration, Qwen3VLConfig(text_config=text | more, vision_config=vision, **more)


CASES = {}
if hasattr(transformers, "Mistral3ForConditionalGeneration"):
    CASES["mistral3"] = lambda: mistral3(tie_word_embeddings=False)
    CASES["mistral3-tied"] = lambda: mistral3(tie_word_embeddings=True)
if hasattr(transformers, "Qwen3VLForConditionalGeneration"):
    CASES["qwen3-vl"] = lambda: qwen3_vl()
    CASES["qwen3-vl-tied"] = lambda: qwen3_vl(tie_word_embeddings=True)
if hasattr(transformers, "Gemma3ForConditionalGeneration"):
    CASES["gemma3-inside"] = lambda: gemma3()
if hasattr(transformers, "Gemma4ForConditionalGeneration"):
    CASES["gemma4-inside"] = lambda: gemma4()
if hasattr(transformers, "Ministral3ForCausalLM"):
    CASES["ministral3-inside"] = lambda: ministral3()
if hasattr(transformers, "Qwen3_5ForConditionalGeneration"):
    CASES["qwen3.5-inside"] = lambda: qwen3_5()
