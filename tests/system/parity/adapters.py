"""What peft makes of tiny random models with adapters, and of adapters that Capstan wrote.

    adapters.py make FOLDER      for each case FOLDER/<case>: config.json, model.safetensors (float32), adapter/ as peft
                                 saves it with every B drawn, and adapter-reference.safetensors: ids int64 [2, 9], logits
                                 float32 [2, 9, vocab]
    adapters.py load FOLDER NAME FOLDER/<case>/NAME is an adapter: NAME-reference.safetensors gets its logits on the same
                                 ids, from peft. Fails where peft finds tensors missing or unexpected, or warns; and where
                                 FOLDER/<case>/merged is not the model that peft merges it into.
    adapters.py fields FOLDER    FOLDER/fields.json: {"field": its default or null} of peft's LoraConfig
"""
import dataclasses
import json
import pathlib
import sys
import tempfile
import warnings

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

from families_gpt_oss import gpt_oss
from families import VOCAB, bloom, gpt2, llama, mixtral, olmo2, qwen3
from families_grouped import deepseek_v3, glm4_moe
from families_qwen3_5 import CASES as QWEN3_5
from families_neox_phi_ministral import gpt_neox, ministral, ministral3, phi3
from families_llamas import glm4, granite, olmo3, smollm3
from families_mixtures import qwen2_moe
from families_others import cohere2, exaone4, gemma, granite_moe_shared, olmoe, seed_oss, starcoder2
from families_recent import apertus, dots1, ernie4_5, ernie4_5_moe, gptj, hunyuan, nemotron, phi, stablelm
from families_gemma import gemma2, gemma3, gemma4, gemma4_experts
from families_wrappers import mistral3, qwen3_vl
from models import ONLY, auto_class, make_model, random_ids

CASES = {
    "gpt": (gpt2, dict(target_modules=["c_attn", "mlp.c_proj"], r=4, lora_alpha=9, fan_in_fan_out=True)),
    "bloom": (bloom, dict(target_modules=["query_key_value", "dense"], r=3, lora_alpha=3, bias="all")),
    "llama": (lambda: llama(num_key_value_heads=2, tie_word_embeddings=False),
              dict(target_modules=["q_proj", "v_proj", "up_proj"], r=5, lora_alpha=7, use_rslora=True,
                   modules_to_save=["lm_head", "model.norm"])),
    "tied": (lambda: llama(tie_word_embeddings=True),
             dict(target_modules=["q_proj", "v_proj", "o_proj"], exclude_modules=["o_proj"], layers_to_transform=[1],
                  r=4, lora_alpha=8, modules_to_save=["embed_tokens"], ensure_weight_tying=True)),
    "mixtral": (mixtral, dict(target_modules=["q_proj", "k_proj", "v_proj"], r=4, lora_alpha=8)),
    "qwen3": (qwen3, dict(target_modules=["q_proj", "o_proj", "gate_proj"], r=4, lora_alpha=8)),
    "mistral3": (mistral3, dict(target_modules=r"model\.language_model\..*\.(q_proj|v_proj|down_proj)", r=4, lora_alpha=8,
                                modules_to_save=["lm_head"])),
    # Not at shared experts: peft with transformers 5 takes their names for those of the fused experts.
    "glm4_moe": (glm4_moe, dict(target_modules=["q_proj", "o_proj"], r=3, lora_alpha=8, modules_to_save=["mlp.gate"])),
    "deepseek_v3": (deepseek_v3, dict(target_modules=["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"], r=3,
                                      lora_alpha=8)),
    "olmo2": (olmo2, dict(target_modules=["k_proj", "down_proj"], r=3, lora_alpha=8)),
    "gpt_neox": (gpt_neox, dict(target_modules=["query_key_value", "dense_h_to_4h"], r=3, lora_alpha=6, bias="all")),
    "phi3": (phi3, dict(target_modules=["qkv_proj", "gate_up_proj", "o_proj"], r=4, lora_alpha=8,
                        modules_to_save=["model.norm"])),
    "ministral": (ministral, dict(target_modules=["q_proj", "v_proj", "gate_proj"], r=3, lora_alpha=8,
                                  modules_to_save=["model.norm"])),
    "smollm3": (smollm3, dict(target_modules=["v_proj", "gate_proj"], r=3, lora_alpha=8)),
    "granite": (granite, dict(target_modules=["q_proj", "down_proj"], r=3, lora_alpha=8, modules_to_save=["lm_head"])),
    "olmo3": (olmo3, dict(target_modules=["q_proj", "o_proj"], r=3, lora_alpha=8)),
    "glm4": (glm4, dict(target_modules=["k_proj", "gate_up_proj"], r=3, lora_alpha=8, bias="all")),
    "gemma": (gemma, dict(target_modules=["q_proj", "up_proj"], r=3, lora_alpha=8)),
    "starcoder2": (starcoder2, dict(target_modules=["v_proj", "c_fc", "c_proj"], r=3, lora_alpha=8, bias="all")),
    "olmoe": (olmoe, dict(target_modules=["k_proj", "o_proj"], r=3, lora_alpha=8)),
    "seed_oss": (seed_oss, dict(target_modules=["v_proj", "down_proj"], r=3, lora_alpha=8)),
    "exaone4": (exaone4, dict(target_modules=["k_proj", "gate_proj"], r=3, lora_alpha=8)),
    "cohere": (cohere2, dict(target_modules=["q_proj", "down_proj"], r=3, lora_alpha=8, modules_to_save=["model.norm"])),
    "hunyuan_v1_dense": (hunyuan, dict(target_modules=["q_proj", "up_proj"], r=3, lora_alpha=8)),
    "dots1": (dots1, dict(target_modules=["k_proj", "o_proj"], r=3, lora_alpha=8)),
    "qwen2_moe": (qwen2_moe, dict(target_modules=["q_proj", "o_proj"], r=3, lora_alpha=8)),
    "ernie4_5": (ernie4_5, dict(target_modules=["q_proj", "down_proj"], r=3, lora_alpha=8)),
    "ernie4_5_moe": (ernie4_5_moe, dict(target_modules=["q_proj", "v_proj"], r=3, lora_alpha=8)),
    "nemotron": (nemotron, dict(target_modules=["v_proj", "up_proj", "down_proj"], r=3, lora_alpha=8)),
    "stablelm": (stablelm, dict(target_modules=["q_proj", "gate_proj"], r=3, lora_alpha=8)),
    "phi": (phi, dict(target_modules=["q_proj", "fc1"], r=3, lora_alpha=8, modules_to_save=["lm_head"])),
    "gptj": (gptj, dict(target_modules=["v_proj", "out_proj", "fc_out"], r=3, lora_alpha=8, bias="all")),
    "gemma2": (gemma2, dict(target_modules=["q_proj", "v_proj", "gate_proj"], r=3, lora_alpha=8)),
    "gemma3": (gemma3, dict(target_modules=["k_proj", "o_proj", "up_proj"], r=3, lora_alpha=8)),
    "gpt_oss": (gpt_oss, dict(target_modules=["q_proj", "o_proj"], r=4, lora_alpha=8, target_parameters=[
        "mlp.router.weight", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
}
if transformers.__version__ >= "5":
    CASES["qwen3_vl"] = (qwen3_vl, dict(target_modules=r"model\.language_model\..*\.(q_proj|v_proj|down_proj)", r=4,
                                        lora_alpha=8))
    from families_mixtures import glm4_moe_lite, minimax_m2

    CASES["minimax_m2"] = (minimax_m2, dict(target_modules=["q_proj", "o_proj"], r=3, lora_alpha=8))
    CASES["glm4_moe_lite"] = (glm4_moe_lite, dict(target_modules=["q_b_proj", "kv_b_proj"], r=3, lora_alpha=8))
    CASES["apertus"] = (apertus, dict(target_modules=["k_proj", "down_proj"], r=3, lora_alpha=8))
    CASES["granite_moe"] = (granite_moe_shared, dict(
        target_modules=["q_proj", "shared_mlp.input_linear", "shared_mlp.output_linear"], r=3, lora_alpha=8,
        target_parameters=["experts.gate_up_proj", "experts.down_proj"]))
if hasattr(transformers, "Gemma4ForCausalLM"):
    CASES["gemma4"] = (lambda: gemma4(hidden_size_per_layer_input=6),
                       dict(target_modules=["q_proj", "k_proj", "down_proj", "per_layer_projection"], r=3, lora_alpha=8))
    CASES["gemma4_experts"] = (gemma4_experts, dict(target_modules=["o_proj", "router.proj", "up_proj"], r=4, lora_alpha=8,
                                                    target_parameters=["experts.gate_up_proj", "experts.down_proj"]))
if QWEN3_5:
    CASES["qwen3_5"] = (QWEN3_5["qwen3.5"], dict(target_modules=["in_proj_qkv", "in_proj_a", "out_proj", "q_proj"], r=4,
                                                 lora_alpha=8))
    CASES["qwen3_next"] = (QWEN3_5["qwen3-next"], dict(target_modules=["in_proj_qkvz", "in_proj_ba", "out_proj", "q_proj"],
                                                       r=4, lora_alpha=8))
if hasattr(transformers, "Ministral3ForCausalLM"):
    CASES["ministral3"] = (ministral3, dict(target_modules=["q_proj", "k_proj", "down_proj"], r=4, lora_alpha=8))
# How far apart merged tensors may be, in parts of the largest element: both add sums of at most 5 products in float32.
MERGED = 2 ** -20
CASES = {name: case for name, case in CASES.items() if not ONLY or name in ONLY.split(",")}


def logits(model):
    ids = random_ids((2, 9), 21)
    with torch.no_grad():
        return {"ids": ids, "logits": model(input_ids=ids).logits.contiguous()}


def move_whole(adapted):
    """As if it had been trained: what is trained besides adapters is no longer the base's."""
    torch.manual_seed(5)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if parameter.requires_grad and "lora_" not in name:
                parameter.add_(0.2 * torch.randn_like(parameter))


def of_file(state, key):
    """peft's own tensor for a key of adapter_model.safetensors that is no adapter's."""
    parts = key.split(".")
    wrapped = [".".join(parts[:i]) + ".modules_to_save.default." + ".".join(parts[i:]) for i in range(1, len(parts))]
    return next(state[name] for name in [key, *wrapped] if name in state)


def comparable(keys):
    """With transformers 5 peft holds the adapters of a mixture's experts and router fused, in tensors of other names;
    there only the logits tell that all were loaded."""
    fused = transformers.__version__ >= "5"
    return {key for key in keys if not (fused and (".experts." in key or ".gate." in key))}


def make(folder):
    for name, (family, options) in CASES.items():
        model = make_model(*family())
        model.save_pretrained(folder / name)
        adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **options)).eval()
        move_whole(adapted)
        adapted.save_pretrained(folder / name / "adapter")
        save_file(logits(adapted), folder / name / "adapter-reference.safetensors")


def without_tied_head(theirs, ours):
    """peft 0.18 saves a head a second time that is tied to a trained embedding: its values must be the embedding's."""
    head = theirs.get("lm_head.weight")
    if head is None or "lm_head.weight" in ours:
        return theirs
    rest = {key: tensor for key, tensor in theirs.items() if key != "lm_head.weight"}
    assert any(torch.equal(head, tensor) for tensor in rest.values()), "peft's merged head is not its embedding"
    return rest


def check_merged(case, adapted, exported):
    """Tensor by tensor, under the names of files."""
    with tempfile.TemporaryDirectory() as own:
        adapted.merge_and_unload().save_pretrained(own)
        theirs, ours = (load_file(pathlib.Path(folder) / "model.safetensors") for folder in (own, exported))
    theirs = without_tied_head(theirs, ours)
    assert set(theirs) == set(ours), (case, set(theirs) ^ set(ours))
    for key, tensor in theirs.items():
        difference = (tensor - ours[key]).abs().max() / tensor.abs().max()
        assert difference <= MERGED, (case, key, difference)


def load(folder, name):
    for case in CASES:
        base = auto_class(folder / case).from_pretrained(folder / case, attn_implementation="eager").eval()
        plain = logits(base)["logits"]
        adapted = PeftModel.from_pretrained(base, folder / case / name).eval()
        state = adapted.state_dict()
        written = load_file(folder / case / name / "adapter_model.safetensors")
        own = {key.replace(".default.", ".") for key in state if "lora_" in key}
        adapters = {key for key in written if "lora_" in key}
        assert comparable(own) == comparable(adapters), (case, "another set of tensors")
        for key in set(written) - adapters:
            assert torch.equal(of_file(state, key), written[key]), (case, key, "peft has not loaded it")
        saved = {key.split(".modules_to_save.default.")[0] for key in state if ".modules_to_save.default." in key}
        said = json.loads((folder / case / name / "adapter_config.json").read_text())["modules_to_save"] or []
        assert len(saved) == len(said), (case, saved)
        out = logits(adapted)
        assert not torch.equal(out["logits"], plain), (case, "the adapter does nothing")
        save_file(out, folder / case / f"{name}-reference.safetensors")
        check_merged(case, adapted, folder / case / "merged")


def fields(folder):
    plain = (bool, int, float, str)
    defaults = {each.name: each.default if isinstance(each.default, plain) else None
                for each in dataclasses.fields(LoraConfig)}
    (folder / "fields.json").write_text(json.dumps(defaults))


if __name__ == "__main__":
    warnings.simplefilter("error", UserWarning)
    warnings.filterwarnings("ignore", message=".*vocabulary was not modified.*")
    # peft 0.18 says so of what target_parameters names, and adapts it all the same.
    warnings.filterwarnings("ignore", message="Unsupported layer type .*GptOss")
    # peft says so of any lm_head in modules_to_save: it looks at the class, not at the model, whose head is its own.
    warnings.filterwarnings("ignore", message="Model has `tie_word_embeddings=True` and a tied layer is part")
    torch.set_num_threads(1)
    {"make": make, "load": load, "fields": fields}[sys.argv[1]](pathlib.Path(sys.argv[2]), *sys.argv[3:])
