"""Tiny random models of each family with one key left out of config.json or planted there, and what transformers makes
of the folder.

    missing_keys.py FOLDER

FOLDER/<case>/<key>/ gets config.json without that key ("rope_parameters.rope_theta" inside of a table) and
model.safetensors; FOLDER/<case>/planted-<n>/ one with the n-th row of PLANTED. Where transformers loads the folder with every tensor of the file and none besides, and computes it,
there is logits.safetensors too, but for rows that Capstan is to refuse:

    ids      int64 [batch, seq]
    logits   [batch, seq, vocab] in float32
"""
import copy
import json
import pathlib
import sys

import torch
import transformers
from models import CASES, make_model, random_ids
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

OF_EACH_FAMILY = ("gpt2", "bloom-6-heads", "llama-3.1", "llama-biases", "llama-yarn", "mistral-window", "qwen2-window",
                  "mixtral-window", "qwen3-yarn", "qwen3-moe-dense", "olmo2-biases", "gemma2", "gemma3-capped",
                  "gpt-oss", "smollm3-window", "granite-yarn", "olmo3-yarn", "glm", "gpt_neox-in-turn", "phi3-long",
                  "ministral3-window", "ministral", "qwen3.5", "qwen3.5-moe", "qwen3-next", "gemma", "starcoder2", "olmoe",
                  "seed-oss", "exaone4", "cohere2", "granite-moe-shared", "hunyuan-dynamic", "dots1", "ernie4.5",
                  "ernie4.5-moe", "nemotron", "stablelm", "apertus", "deepseek-v2", "qwen2-moe-dense", "minimax-m2",
                  "glm4-moe-lite-listed", "phi", "gptj")
# Without these a file is none of the family, or of nothing; families' tokens of padding are beyond a tiny vocabulary.
ALWAYS_THERE = {"architectures", "model_type", "vocab_size", "dtype", "torch_dtype", "transformers_version",
                "pad_token_id"}
# Capstan asks for sizes, for which transformers has a default.
SIZES = {"hidden_size", "n_embd", "num_hidden_layers", "n_layer", "num_attention_heads", "n_head", "intermediate_size"}

# case, keys with values, and whether Capstan refuses them: transformers takes one of two that disagree, and computes what
# Capstan does not.
PLANTED = (
    ("llama-biases", {"partial_rotary_factor": 0.5}, True), ("llama-biases", {"pretraining_tp": 2}, False),
    ("llama-biases", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, True), ("llama-biases", {"rope_theta": 77.0}, True),
    ("llama-biases", {"hidden_act": "gelu"}, True), ("llama-biases", {"sliding_window": 4}, True),
    ("llama-biases", {"head_dim": None}, False), ("llama-biases", {"newer_key": 0.3}, False),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, True), ("gpt2", {"scale_attn_weights": False}, True),
    ("gpt2", {"add_cross_attention": True}, True), ("gpt2", {"activation_function": "relu"}, True),
    ("gpt2", {"num_hidden_layers": 2}, True),
    ("mixtral-window", {"num_experts_per_tok": 3}, False), ("mixtral-window", {"router_jitter_noise": 0.3}, True),
    ("bloom-6-heads", {"apply_residual_connection_post_layernorm": False}, False),
    ("bloom-6-heads", {"pretraining_tp": 2, "slow_but_exact": True}, True), ("bloom-6-heads", {"pretraining_tp": 2}, False),
    ("olmo2-biases", {"clip_qkv": 0.1}, False), ("mistral-window", {"sliding_window": 3}, False),
    ("mistral-window", {"sliding_window": None}, False),
    ("gemma2", {"attn_logit_softcapping": None, "final_logit_softcapping": None}, False),
    ("gemma2", {"hidden_activation": "relu"}, True), ("gemma2", {"use_bidirectional_attention": True}, True),
    ("gemma2", {"hidden_act": "relu"}, False), ("gemma2", {"query_pre_attn_scalar": 3}, False),
    ("gemma3-capped", {"attn_logit_softcapping": 2.0}, True), ("gemma3-capped", {"sliding_window_pattern": 1}, False),
    ("olmo3-yarn", {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, True),
    ("olmo3-yarn", {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 77.0},
                                        "sliding_attention": {"rope_type": "default", "rope_theta": 5e5}}}, True),
    ("olmo3-yarn", {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 77.0},
                                        "sliding_attention": {"rope_type": "default", "rope_theta": 77.0}}}, False),
    ("qwen3.5", {"attn_output_gate": False}, True), ("qwen3.5", {"mamba_ssm_dtype": "bfloat16"}, True),
    ("qwen3.5", {"mtp_num_hidden_layers": 1}, False), ("qwen3.5-moe", {"norm_topk_prob": False}, True),
    ("smollm3-window", {"no_rope_layers": [0, 0, 1]}, False), ("smollm3-window", {"no_rope_layers": [1]}, True),
    ("gpt_neox-in-turn", {"rotary_pct": 0.5}, True), ("gpt_neox-in-turn", {"hidden_act": "relu"}, True),
    ("phi3-long", {"original_max_position_embeddings": 2}, True), ("phi3-long", {"attention_bias": True}, True),
    ("ministral3-window", {"rope_theta": 77.0}, True), ("ministral", {"sliding_window": 3}, False),
    ("qwen3-next", {"mlp_only_layers": [0]}, True), ("qwen3-next", {"decoder_sparse_step": 2}, True),
    ("gemma", {"hidden_act": "gelu"}, True), ("gemma", {"hidden_activation": "relu"}, True),
    ("starcoder2", {"activation_function": "relu", "norm_type": "rms"}, False), ("olmoe", {"clip_qkv": 0.1}, True),
    ("exaone4", {"sliding_window_pattern": "LG"}, True), ("cohere2", {"rotary_pct": 0.5}, False),
    ("cohere2", {"sliding_window_pattern": 2, "layer_types": None}, False),
    ("granite-moe-shared", {"logits_scaling": 2}, False),
    ("hunyuan-dynamic", {"use_cla": True}, True), ("hunyuan-dynamic", {"attention_head_dim": 7}, False),
    ("dots1", {"layer_types": None, "max_window_layers": 2}, False), ("dots1", {"scoring_func": "softmax"}, True),
    ("ernie4.5-moe", {"use_bias": True}, True), ("apertus", {"post_norm": True}, True), ("ernie4.5-moe", {"moe_gate": "top2"}, False),
    ("nemotron", {"hidden_act": "relu"}, True), ("stablelm", {"qk_layernorm": True}, True),
    ("stablelm", {"hidden_dropout": 0.1}, True), ("stablelm", {"use_parallel_residual": True}, True),
    ("deepseek-v2", {"topk_method": "group_limited_greedy"}, True), ("deepseek-v2", {"norm_topk_prob": True}, True),
    ("qwen2-moe-dense", {"use_sliding_window": True}, True), ("qwen2-moe-dense", {"decoder_sparse_step": 2}, False),
    ("minimax-m2", {"router_jitter_noise": 0.1}, True), ("minimax-m2", {"num_mtp_modules": 3}, False),
    ("glm4-moe-lite-listed", {"mlp_layer_types": ["dense"]}, True),
    ("glm4-moe-lite-listed", {"first_k_dense_replace": 2}, True), ("glm4-moe-lite-listed", {"scoring_func": "softmax"}, True),
    ("phi", {"qk_layernorm": True}, True), ("phi", {"hidden_act": "relu"}, True), ("phi", {"num_key_value_heads": None}, False),
    ("gptj", {"activation_function": "relu"}, True), ("gptj", {"rotary_dim": 8}, False), ("gptj", {"rotary": True}, False),
    ("smollm3-window", {"max_window_layers": 1}, False), ("granite-yarn", {"logits_scaling": 2}, False),
)


def keys_of(config):
    table = config.get("rope_parameters") or {}
    # Dropout is none in what is compared.
    return [key for key in config if key not in ALWAYS_THERE and not key.endswith(("dropout", "_pdrop"))] + [
        f"rope_parameters.{key}" for key in table if key != "rope_type"]


def without(config, key):
    config = copy.deepcopy(config)
    *tables, last = key.split(".")
    at = config
    for table in tables:
        at = at[table]
    del at[last]
    return config


def logits(folder, ids):
    """None where the folder is not, to transformers, the model that its file holds."""
    try:
        model, told = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                           output_loading_info=True)
        if any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")):
            return None
        with torch.no_grad():
            return model.eval()(input_ids=ids).logits.contiguous()
    except Exception:   # of whatever kind: transformers checks little
        return None


def main():
    transformers.utils.logging.set_verbosity(transformers.logging.CRITICAL)
    torch.set_num_threads(1)
    ids = random_ids((2, 20), 12)

    def write(folder, config, is_refused=False):
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "model.safetensors").symlink_to(folder.parent / "model.safetensors")
        if not is_refused and (values := logits(folder, ids)) is not None:
            save_file({"ids": ids, "logits": values}, folder / "logits.safetensors")

    for case in (case for case in OF_EACH_FAMILY if case in CASES):
        whole = pathlib.Path(sys.argv[1]) / case
        make_model(*CASES[case]()).save_pretrained(whole)
        config = json.loads((whole / "config.json").read_text())
        for key in keys_of(config):
            write(whole / key, without(config, key), key in SIZES)
        for n, (planted_in, keys, is_refused) in enumerate(PLANTED):
            if planted_in == case:
                write(whole / f"planted-{n}", config | keys, is_refused)


main()
