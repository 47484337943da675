"""What transformers makes of a tiny random gpt-oss whose experts are in MXFP4, as it is published.

    mxfp4.py make FOLDER             FOLDER/packed: the model, its experts drawn as codes, the rest bfloat16;
                                     FOLDER/reference.safetensors: ids int64 [2, 9], the logits of the model that
                                     transformers decodes, in float32 [2, 9, vocab], and each decoded tensor under its name
    mxfp4.py check FOLDER WRITTEN    WRITTEN loads without a warning as an unquantised model with FOLDER/reference's logits,
                                     bit by bit, and has its tensors
"""
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from export import listening
from families_gpt_oss import YARN, gpt_oss
from models import PLAIN, make_model, random_ids


def packed(tensor, seed):
    """[experts, in, out] drawn as codes: blocks [experts, out, in / 32, 16], scales [experts, out, in / 32]"""
    experts, rows, columns = tensor.shape
    drawn = torch.Generator().manual_seed(seed)
    shape = (experts, columns, rows // 32)
    return (torch.randint(0, 256, (*shape, 16), generator=drawn, dtype=torch.uint8),
            torch.randint(116, 124, shape, generator=drawn, dtype=torch.uint8))


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **PLAIN).float().eval()


def logits(model):
    with torch.no_grad():
        return model(input_ids=random_ids((2, 9), 21)).logits.contiguous()


def make(folder):
    model = make_model(*gpt_oss(hidden_size=64, intermediate_size=32, num_hidden_layers=2,
                                max_position_embeddings=128, rope_scaling=dict(YARN))).to(torch.bfloat16)
    tensors, decoded = {}, {}
    for seed, (name, tensor) in enumerate(model.state_dict().items()):
        if not name.endswith(("gate_up_proj", "down_proj")):
            tensors[name] = tensor.contiguous()
            continue
        tensors[name + "_blocks"], tensors[name + "_scales"] = packed(tensor, seed)
        decoded[name] = convert_moe_packed_tensors(tensors[name + "_blocks"], tensors[name + "_scales"])
    config = model.config.to_dict() | {"dtype": "bfloat16", "architectures": ["GptOssForCausalLM"], "quantization_config": {
        "quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                            "model.embed_tokens", "lm_head"]}}
    (folder / "packed").mkdir()
    (folder / "packed" / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "packed" / "model.safetensors", {"format": "pt"})
    for other in ("original", "metal"):   # which published folders have besides, and nothing reads
        (folder / "packed" / other).mkdir()
        save_file({"other": torch.zeros(3)}, folder / "packed" / other / "model.safetensors")
    save_file({"ids": random_ids((2, 9), 21), "logits": logits(load(folder / "packed"))} | decoded,
              folder / "reference.safetensors")


def check(folder, written):
    config = json.loads((written / "config.json").read_text())
    assert "quantization_config" not in config, config
    with listening() as said:
        model = load(written)
    assert not said, said
    expected = load_file(folder / "reference.safetensors")
    assert torch.equal(logits(model), expected["logits"])
    ours, original = load_file(written / "model.safetensors"), load_file(folder / "packed" / "model.safetensors")
    for name, tensor in ours.items():
        wanted = expected[name] if name in expected else original[name]
        assert tensor.dtype == torch.bfloat16 and torch.equal(tensor, wanted), name


if __name__ == "__main__":
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    {"make": make, "check": check}[sys.argv[1]](*map(pathlib.Path, sys.argv[2:]))
