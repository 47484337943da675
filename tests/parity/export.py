"""What transformers makes of model folders that Capstan wrote.

    export.py variants MODELS OUT             models of models.py's folder MODELS as they are published, in OUT:
        bloom       without "transformer.", n_embed and num_attention_heads, float16, with a tokenizer
        gpt2        without "transformer.", with mask buffers and a copy of the tied head
        llama       bfloat16, in several files
        mixtral     bfloat16, in several files
    export.py check ORIGINAL EXPORTED DTYPE …   loads each pair: EXPORTED must load without a warning, with nothing
        missing or left over, and give the logits of ORIGINAL in DTYPE ("same": its own) bit by bit; where that is
        "same", its tensors must be the original's bytes
"""
import json
import logging
import pathlib
import shutil
import sys
import warnings

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.decoders import ByteLevel
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

TEXT = "Where is Paris? In the north."


def bare(source, to, rename):
    """The folder with other names in config.json and no prefix before names of tensors."""
    config = json.loads((source / "config.json").read_text())
    for old, new in rename.items():
        config[new] = config.pop(old)
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in load_file(source / "model.safetensors").items()}
    to.mkdir(parents=True)
    (to / "config.json").write_text(json.dumps(config))
    return config, tensors


def write_tokenizer(to):
    vocabulary = {token: i for i, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocabulary |= {"</s>": 256, "Th": 257, "in": 258, "er": 259, "is": 260}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("T", "h"), ("i", "n"), ("e", "r"), ("i", "s")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>").save_pretrained(to)


def variants(source, to):
    source, to = pathlib.Path(source), pathlib.Path(to)
    _, tensors = bare(source / "bloom", to / "bloom", {"hidden_size": "n_embed", "n_head": "num_attention_heads"})
    save_file({name: tensor.half() for name, tensor in tensors.items()}, to / "bloom" / "model.safetensors", {"format": "pt"})
    write_tokenizer(to / "bloom")
    config, tensors = bare(source / "gpt2", to / "gpt2", {})
    mask = torch.ones(1, 1, config["n_positions"], config["n_positions"], dtype=torch.bool).tril()
    for layer in range(config["n_layer"]):
        tensors |= {f"h.{layer}.attn.bias": mask.clone(), f"h.{layer}.attn.masked_bias": torch.tensor(-1e4)}
    tensors["lm_head.weight"] = tensors["wte.weight"].clone()
    save_file(tensors, to / "gpt2" / "model.safetensors", {"format": "pt"})
    for name in ("llama", "mixtral"):
        model = AutoModelForCausalLM.from_pretrained(source / name, dtype=torch.bfloat16)
        model.save_pretrained(to / name, max_shard_size="50KB")
        assert (to / name / "model.safetensors.index.json").exists()
    shutil.copy(to / "bloom" / "tokenizer.json", to / "llama")  # alone, as some folders have it


class Warnings(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def load(folder, dtype):
    """(model, everything that was said while it was loaded)"""
    handler = Warnings()
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager",
                                                           output_loading_info=True)
    logger.removeHandler(handler)
    said = handler.texts + [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
    return model.eval(), said + [f"{kind}: {names}" for kind, names in info.items() if names]


def logits(model):
    ids = torch.randint(0, model.config.vocab_size, (2, 17), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        return model(input_ids=ids).logits


def all_tensors(folder):
    tensors = {}
    for file in sorted(folder.glob("model*.safetensors")):
        with safe_open(file, "pt") as opened:
            assert opened.metadata() == {"format": "pt"}, file
        tensors |= load_file(file)
    return tensors


def compare_bytes(original, exported):
    before, after = all_tensors(original), all_tensors(exported)
    gone = set(before) - set(after) - {"lm_head.weight"}
    assert all(name.endswith(("attn.bias", "attn.masked_bias")) for name in gone), gone
    assert set(after) <= set(before), set(after) - set(before)
    for name, tensor in after.items():
        assert tensor.dtype == before[name].dtype, name
        assert torch.equal(tensor.contiguous().view(torch.uint8), before[name].contiguous().view(torch.uint8)), name


def check_pair(original, exported, dtype):
    own = dtype == "same"
    theirs, _ = load(original, "auto" if own else getattr(torch, dtype))
    ours, said = load(exported, "auto")
    assert not said, said
    assert ours.dtype == theirs.dtype, (ours.dtype, theirs.dtype)
    assert type(ours) is type(theirs), type(ours)
    assert torch.equal(logits(ours), logits(theirs)), (logits(ours) - logits(theirs)).abs().max()
    for key in ("max_position_embeddings", "n_positions", "num_key_value_heads", "rope_theta", "rope_scaling",
                "tie_word_embeddings", "rms_norm_eps", "layer_norm_epsilon", "router_aux_loss_coef",
                "output_router_logits", "sliding_window", "embd_pdrop", "attn_pdrop", "resid_pdrop"):
        assert getattr(ours.config, key, None) == getattr(theirs.config, key, None), key
    if own:
        compare_bytes(original, exported)
    if (original / "tokenizer.json").exists():
        tokenizers = [AutoTokenizer.from_pretrained(folder) for folder in (original, exported)]
        assert len({tuple(tokenizer(TEXT)["input_ids"]) for tokenizer in tokenizers}) == 1


def check(*arguments):
    faults = 0
    for original, exported, dtype in zip(arguments[::3], arguments[1::3], arguments[2::3]):
        try:
            check_pair(pathlib.Path(original), pathlib.Path(exported), dtype)
        except Exception as fault:  # every pair is said, whatever is wrong with it
            print(f"{exported}: {type(fault).__name__}: {fault}")
            faults += 1
    sys.exit(1 if faults else 0)


torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()
{"variants": variants, "check": check}[sys.argv[1]](*sys.argv[2:])
