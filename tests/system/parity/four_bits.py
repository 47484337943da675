"""What transformers and bitsandbytes make of a tiny random Llama in 4 bits (NF4 with double quantisation), on CPU.

    four_bits.py make FOLDER              FOLDER/plain: the model in float32; FOLDER/packed: the same in 4 bits as
                                          save_pretrained writes it, FOLDER/single: with single quantisation;
                                          FOLDER/reference.safetensors: ids int64 [2, 9] and the logits of plain and packed
                                          [2, 9, vocab]
    four_bits.py check PACKED WRITTEN…    each folder WRITTEN must load without a warning. Its layers must have PACKED's
                                          codes, each magnitude within a place of PACKED's in the map of 256; where all
                                          magnitudes are the same, the logits too, bit by bit
"""
import contextlib
import logging
import pathlib
import sys
import warnings

import torch
import transformers
from bitsandbytes.nn import Linear4bit
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from families import llama
from models import make_model, random_ids


class Warned(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.said = []

    def emit(self, record):
        self.said.append(record.getMessage())


@contextlib.contextmanager
def quiet():
    """Fails where transformers warns."""
    handler = Warned()
    logger = logging.getLogger('transformers')
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
    assert not handler.said, handler.said


def quantised(folder, double):
    how = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4', bnb_4bit_use_double_quant=double,
                             bnb_4bit_compute_dtype=torch.float32)
    return AutoModelForCausalLM.from_pretrained(folder, quantization_config=how, device_map='cpu', dtype=torch.float32,
                                                attn_implementation='eager').eval()


def load(folder):
    with quiet():
        return AutoModelForCausalLM.from_pretrained(folder, device_map='cpu', dtype=torch.float32, attn_implementation='eager').eval()


def logits(model):
    for module in model.modules():
        if isinstance(module, Linear4bit):   # else some CPUs multiply in bfloat16, from a layout of their own
            module.support_avx512bf16_for_cpu = False
    with torch.no_grad():
        return model(input_ids=random_ids((2, 9), 21)).logits.float().contiguous()


def make(folder):
    family = llama(num_key_value_heads=2, tie_word_embeddings=False, hidden_size=64, intermediate_size=192)
    make_model(*family).save_pretrained(folder / 'plain')
    quantised(folder / 'plain', double=True).save_pretrained(folder / 'packed')
    quantised(folder / 'plain', double=False).save_pretrained(folder / 'single')
    save_file({'ids': random_ids((2, 9), 21), 'plain': logits(load(folder / 'plain')), 'packed': logits(load(folder / 'packed'))},
              folder / 'reference.safetensors')


def layers(model):
    """Codes, magnitudes and offset of each layer in 4 bits."""
    packed = {name: module.weight for name, module in model.named_modules() if isinstance(module, Linear4bit)}
    return {name: (weight.data, weight.quant_state.absmax, weight.quant_state.offset) for name, weight in packed.items()}


def check(packed, *written):
    original = load(packed)
    theirs = layers(original)
    expected = logits(original)
    for folder in written:
        other = load(folder)
        ours = layers(other)
        assert set(ours) == set(theirs) and len(ours) > 6, (folder, set(ours) ^ set(theirs))
        for name, (codes, magnitudes, _) in ours.items():
            assert torch.equal(codes, theirs[name][0]), (folder, name, 'other codes')
            apart = (magnitudes.int() - theirs[name][1].int()).abs().max().item()
            assert apart <= 1, (folder, name, f'magnitudes {apart} places apart')
        if all(torch.equal(a, b) for name in ours for a, b in zip(ours[name][1:], theirs[name][1:])):
            assert torch.equal(logits(other), expected), (folder, 'other logits')


if __name__ == '__main__':
    warnings.simplefilter('error', UserWarning)
    torch.set_num_threads(1)
    {'make': lambda folder: make(pathlib.Path(folder)), 'check': check}[sys.argv[1]](*sys.argv[2:])
