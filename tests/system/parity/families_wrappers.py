"""Text models inside of models that read images too: what Capstan trains of them is the text model.

The towers are as small as their classes allow, and no image goes into them.
"""
import transformers

VOCAB = 261


def mistral3(text="mistral", **more):
    from transformers import CONFIG_MAPPING, Mistral3Config, Mistral3ForConditionalGeneration
    more = dict(tie_word_embeddings=False) | more
    base = dict(model_type=text, vocab_size=VOCAB, hidden_size=48, intermediate_size=100, num_hidden_layers=3,
                num_attention_heads=4, num_key_value_heads=2, head_dim=14, max_position_embeddings=130,
                sliding_window=None, tie_word_embeddings=more["tie_word_embeddings"])
    vision = dict(model_type="pixtral", hidden_size=16, intermediate_size=24, num_hidden_layers=1,
                  num_attention_heads=2, image_size=28, patch_size=14, head_dim=8)
    assert text in CONFIG_MAPPING
    return Mistral3ForConditionalGeneration, Mistral3Config(vision_config=vision, text_config=base, **more)


CASES = {}
if hasattr(transformers, "Mistral3ForConditionalGeneration"):
    CASES["mistral3"] = lambda: mistral3(tie_word_embeddings=False)
    CASES["mistral3-tied"] = lambda: mistral3(tie_word_embeddings=True)
