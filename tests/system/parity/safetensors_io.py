"""Reads and writes safetensors files with the reference implementation, for comparison with Capstan's.

    safetensors_io.py write OUT        tensors of every dtype, many shapes and names
    safetensors_io.py rewrite IN OUT   loads IN into torch and saves what it got
"""
import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.float8_e5m2, torch.float8_e4m3fn, torch.int16, torch.uint16,
          torch.float16, torch.bfloat16, torch.int32, torch.uint32, torch.float32, torch.float64, torch.int64,
          torch.uint64]


def random_tensor(dtype, shape, generator):
    """Any bit pattern is a value, NaNs included."""
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    item = torch.empty((), dtype=dtype).element_size()
    return torch.randint(0, 256, (*shape, item), dtype=torch.uint8, generator=generator).view(dtype).squeeze(-1)


def write(out):
    generator = torch.Generator().manual_seed(5)
    tensors = {}
    for dtype in DTYPES:
        for i, shape in enumerate([(3,), (2, 5), (1, 1, 7), (0, 4)]):
            tensors[f"{'zyxw'[i]}.\"ü\".{str(dtype).removeprefix('torch.')}"] = random_tensor(dtype, shape, generator)
    tensors["scalar"] = torch.tensor(1.5)
    save_file(tensors, out, {"format": "pt"})


def rewrite(source, out):
    with safe_open(source, "pt") as file:
        metadata = file.metadata()
    save_file(load_file(source), out, metadata)


{"write": write, "rewrite": rewrite}[sys.argv[1]](*sys.argv[2:])
