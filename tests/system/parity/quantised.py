"""Tiny random models in codes, as they are published, and the numbers that transformers and bitsandbytes make of them.

    quantised.py FOLDER     for each case FOLDER/<case>: config.json with quantization_config, model.safetensors with
                            codes and scales; FOLDER/<case>-numbers: the same model with the numbers in float32
        blocks              a Llama in FP8, a float32 scale for each block of 32 x 32 (DeepSeek-V3's form)
        ragged              the same with blocks that do not divide the matrices, whose last ones are smaller
        matrices            a text model in another model in FP8, one bfloat16 scale for each matrix and one of its
                            inputs (Ministral 3's form)
        nf4, nf4-single, fp4    a Llama in 4 bits of bitsandbytes, with double and single quantization
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import BitsAndBytesConfig
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

from families import llama
from families_wrappers import mistral3
from models import auto_class, make_model

BLOCK = 32
LARGEST = 448.0


def blocks_of(weight):
    """Codes and a scale for each block, which is that of its largest magnitude."""
    rows, columns = (-(-size // BLOCK) for size in weight.shape)
    codes = torch.empty(weight.shape, dtype=torch.float8_e4m3fn)
    scales = torch.empty(rows, columns)
    for i in range(rows):
        for j in range(columns):
            at = (slice(i * BLOCK, (i + 1) * BLOCK), slice(j * BLOCK, (j + 1) * BLOCK))
            scales[i, j] = weight[at].abs().max() / LARGEST
            codes[at] = (weight[at] / scales[i, j]).to(torch.float8_e4m3fn)
    return codes, scales


def whole_of(weight):
    scale = (weight.abs().max() / LARGEST).bfloat16()
    return (weight / scale.float()).to(torch.float8_e4m3fn), scale


def numbers_of(codes, scales):
    """By transformers where blocks divide the matrix: it cuts any other into as many equal ones as there are scales, and
    100 columns of 4 scales into blocks of 25 instead of three of 32 and one of 4."""
    if scales.dim() == 0 or all(size % BLOCK == 0 for size in codes.shape):
        return Fp8Dequantize(None)._dequantize_one(codes, scales, torch.float32)
    of_elements = scales.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
    return codes.float() * of_elements[:codes.shape[0], :codes.shape[1]]


def in_fp8(folder, family, quantise, config):
    """The folder and that of its numbers: linears of blocks are in codes."""
    make_model(*family).save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    coded, numbers = {}, {}
    for name, tensor in tensors.items():
        coded[name] = numbers[name] = tensor
        if ".layers." not in name or not name.endswith("_proj.weight") or "vision" in name:
            continue
        coded[name], scale = quantise(tensor)
        coded[name + "_scale_inv"] = scale
        numbers[name] = numbers_of(coded[name], scale)
        if config["activation_scheme"] == "static":
            coded[name.replace(".weight", ".activation_scale")] = torch.tensor(0.25).bfloat16()
    shutil.copytree(folder, str(folder) + "-numbers")
    save_file(numbers, str(folder) + "-numbers/model.safetensors", {"format": "pt"})
    save_file(coded, folder / "model.safetensors", {"format": "pt"})
    said = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(said | {"quantization_config": config}))


def in_four_bits(folder, kind, double):
    from bitsandbytes.functional import dequantize_4bit
    from bitsandbytes.nn import Linear4bit
    plain = pathlib.Path(str(folder) + "-numbers")
    make_model(*llama(num_key_value_heads=2, hidden_size=64, intermediate_size=192)).save_pretrained(plain)
    how = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=kind, bnb_4bit_use_double_quant=double,
                             bnb_4bit_compute_dtype=torch.float32)
    model = auto_class(plain).from_pretrained(plain, quantization_config=how, device_map="cpu", dtype=torch.float32)
    model.save_pretrained(folder)
    numbers = load_file(plain / "model.safetensors")
    for name, module in model.named_modules():
        if isinstance(module, Linear4bit):
            numbers[name + ".weight"] = dequantize_4bit(module.weight.data, module.weight.quant_state).float()
    save_file(numbers, plain / "model.safetensors", {"format": "pt"})


def main(folder):
    how = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [BLOCK, BLOCK]}
    in_fp8(folder / "blocks", llama(num_key_value_heads=2, hidden_size=64, intermediate_size=96), blocks_of, how)
    in_fp8(folder / "ragged", llama(num_key_value_heads=2), blocks_of, how)
    in_fp8(folder / "matrices", mistral3(tie_word_embeddings=False), whole_of,
           {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None,
            "modules_to_not_convert": ["model.vision_tower", "model.multi_modal_projector", "lm_head"]})
    for name, kind, double in (("nf4", "nf4", True), ("nf4-single", "nf4", False), ("fp4", "fp4", False)):
        in_four_bits(folder / name, kind, double)


transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
main(pathlib.Path(sys.argv[1]))
