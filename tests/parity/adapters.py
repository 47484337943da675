"""What peft makes of tiny random models with adapters, and of adapters that Capstan wrote.

    adapters.py make FOLDER      for each case FOLDER/<case>: config.json, model.safetensors (float32), adapter/ as peft
                                 saves it with every B drawn, and adapter-reference.safetensors: ids int64 [2, 9], logits
                                 float32 [2, 9, vocab]
    adapters.py load FOLDER NAME FOLDER/<case>/NAME is an adapter: NAME-reference.safetensors gets its logits on the same
                                 ids, from peft. Fails where peft finds tensors missing or unexpected, or warns.
"""
import pathlib
import sys
import warnings

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from models import VOCAB, bloom, gpt2, llama, make_model, mixtral, random_ids

CASES = {
    "gpt": (gpt2, dict(target_modules=["c_attn", "mlp.c_proj"], r=4, lora_alpha=9, fan_in_fan_out=True)),
    "bloom": (bloom, dict(target_modules=["query_key_value", "dense"], r=3, lora_alpha=3)),
    "llama": (lambda: llama(num_key_value_heads=2), dict(target_modules=["q_proj", "v_proj", "up_proj"], r=5,
                                                         lora_alpha=7, use_rslora=True)),
    "mixtral": (mixtral, dict(target_modules=["q_proj", "k_proj", "v_proj"], r=4, lora_alpha=8)),
}


def logits(model):
    ids = random_ids((2, 9), 21)
    with torch.no_grad():
        return {"ids": ids, "logits": model(input_ids=ids).logits.contiguous()}


def make(folder):
    for name, (family, options) in CASES.items():
        model = make_model(*family())
        model.save_pretrained(folder / name)
        adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **options)).eval()
        adapted.save_pretrained(folder / name / "adapter")
        save_file(logits(adapted), folder / name / "adapter-reference.safetensors")


def load(folder, name):
    for case in CASES:
        base = AutoModelForCausalLM.from_pretrained(folder / case, attn_implementation="eager").eval()
        plain = logits(base)["logits"]
        adapted = PeftModel.from_pretrained(base, folder / case / name).eval()
        own = {key.replace(".default.", ".") for key in adapted.state_dict() if "lora_" in key}
        assert own == set(load_file(folder / case / name / "adapter_model.safetensors")), (case, "another set of tensors")
        out = logits(adapted)
        assert not torch.equal(out["logits"], plain), (case, "the adapter does nothing")
        save_file(out, folder / case / f"{name}-reference.safetensors")


if __name__ == "__main__":
    warnings.simplefilter("error", UserWarning)
    warnings.filterwarnings("ignore", message=".*vocabulary was not modified.*")
    torch.set_num_threads(1)
    {"make": make, "load": load}[sys.argv[1]](pathlib.Path(sys.argv[2]), *sys.argv[3:])
