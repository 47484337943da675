"""What transformers makes of model folders that Capstan wrote.

    export.py variants MODELS OUT             models of models.py's folder MODELS as they are published, in OUT:
        bloom       without "transformer.", n_embed and num_attention_heads, float16 that config.json does not mention,
                    with a tokenizer
        gpt2        without "transformer.", with mask buffers
        gpt2-head   with mask buffers and a copy of the tied head
        llama       bfloat16, in several files, with only a tokenizer.json
        mixtral     bfloat16, in several files
        qwen2.5     a tiny Qwen2.5-0.5B-Instruct: its config.json, generation_config.json, tokenizer_config.json and
                    tokenizer.json with the published keys and pipeline, bfloat16
    export.py qwen OUT                        only the last one
    export.py logits FOLDER OUT               loads FOLDER, without a warning, in float32; OUT gets the text TEXT as its
        tokenizer's "ids" [1, tokens] and the model's "logits" [1, tokens, vocab]
    export.py check ORIGINAL EXPORTED DTYPE …   loads each pair: EXPORTED must load without a warning, with nothing
        missing or left over, and give the logits of ORIGINAL in DTYPE ("same": its own) bit by bit; where that is
        "same", its tensors must be the original's bytes. Its config.json must say the dtype of its tensors, its
        tokenizer give the original's ids
"""
import contextlib
import functools
import json
import logging
import pathlib
import shutil
import sys
import warnings

import torch
import models as tiny
import published_tokenizers
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.decoders import ByteLevel
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

TEXT = "Where is Paris? In the north, 48 degrees."


def write(to, config, tensors):
    to.mkdir(parents=True)
    (to / "config.json").write_text(json.dumps(config))
    save_file(tensors, to / "model.safetensors", {"format": "pt"})


def bare(tensors):
    return {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}


def write_bloom(source, to):
    config = json.loads((source / "config.json").read_text())
    config["n_embed"], config["num_attention_heads"] = config.pop("hidden_size"), config.pop("n_head")
    del config["dtype"]
    tensors = bare(load_file(source / "model.safetensors"))
    write(to, config, {name: tensor.half() for name, tensor in tensors.items()})
    write_tokenizer(to)


def write_gpt2(source, to, with_head):
    config = json.loads((source / "config.json").read_text())
    tensors = load_file(source / "model.safetensors")
    mask = torch.ones(1, 1, config["n_positions"], config["n_positions"], dtype=torch.bool).tril()
    for layer in range(config["n_layer"]):
        block = f"transformer.h.{layer}.attn."
        tensors |= {block + "bias": mask.clone(), block + "masked_bias": torch.tensor(-1e4)}
    if with_head:
        tensors["lm_head.weight"] = tensors["transformer.wte.weight"].clone()
    # Only files of the bare model, which has no head, have no prefix: transformers refuses others.
    write(to, config, tensors if with_head else bare(tensors))


def write_tokenizer(to):
    vocabulary = {token: i for i, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocabulary |= {"</s>": 256, "Th": 257, "in": 258, "er": 259, "is": 260}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("T", "h"), ("i", "n"), ("e", "r"), ("i", "s")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>").save_pretrained(to)


def qwen_config(ids):
    """Qwen/Qwen2.5-0.5B-Instruct's config.json with smaller sizes."""
    return {"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|im_end|>"], "hidden_act": "silu", "hidden_size": 56, "initializer_range": 0.02,
            "intermediate_size": 304, "max_position_embeddings": 512, "max_window_layers": 2, "model_type": "qwen2",
            "num_attention_heads": 14, "num_hidden_layers": 3, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
            "rope_theta": 1000000.0, "sliding_window": 512, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
            "transformers_version": "4.43.1", "use_cache": True, "use_sliding_window": False, "vocab_size": 1024}


def qwen_generation_config(ids):
    return {"bos_token_id": ids["<|endoftext|>"], "pad_token_id": ids["<|endoftext|>"], "do_sample": True,
            "eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]], "repetition_penalty": 1.1, "temperature": 0.7,
            "top_p": 0.8, "top_k": 20, "transformers_version": "4.37.0"}


def qwen_tokenizer_config(tokenizer):
    flags = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    return {"add_bos_token": False, "add_prefix_space": False, "added_tokens_decoder": {
                str(token["id"]): {flag: token[flag] for flag in flags} for token in tokenizer["added_tokens"]},
            "additional_special_tokens": published_tokenizers.QWEN_SPECIAL[1:], "bos_token": None,
            "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>", "errors": "replace",
            "model_max_length": 131072, "pad_token": "<|endoftext|>", "split_special_tokens": False,
            "tokenizer_class": "Qwen2Tokenizer", "unk_token": None}


def write_qwen(to):
    tokenizer = published_tokenizers.qwen2(size=800)
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    config = qwen_config(ids)
    torch.manual_seed(5)
    model = Qwen2ForCausalLM(Qwen2Config(**config))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # which transformers begins with 0, and published ones are not
            torch.nn.init.normal_(parameter, std=0.3)
    tensors = {name: tensor.bfloat16() for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    write(to, config, tensors)
    for name, content in (("generation_config.json", qwen_generation_config(ids)), ("tokenizer.json", tokenizer),
                          ("tokenizer_config.json", qwen_tokenizer_config(tokenizer))):
        (to / name).write_text(json.dumps(content, ensure_ascii=False))


def variants(source, to):
    source, to = pathlib.Path(source), pathlib.Path(to)
    write_bloom(source / "bloom", to / "bloom")
    write_gpt2(source / "gpt2", to / "gpt2", with_head=False)
    write_gpt2(source / "gpt2", to / "gpt2-head", with_head=True)
    for name in ("llama", "mixtral"):
        model = AutoModelForCausalLM.from_pretrained(source / name, dtype=torch.bfloat16)
        model.save_pretrained(to / name, max_shard_size="50KB")
        assert (to / name / "model.safetensors.index.json").exists()
    shutil.copy(to / "bloom" / "tokenizer.json", to / "llama")  # only this file, as in some folders
    write_qwen(to / "qwen2.5")


class Warnings(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


@contextlib.contextmanager
def listening():
    """A list that has everything that transformers said, once the block is over."""
    said, handler, logger = [], Warnings(), logging.getLogger("transformers")
    logger.addHandler(handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield said
    logger.removeHandler(handler)
    said += handler.texts + [str(w.message) for w in caught if issubclass(w.category, UserWarning)]


def load(folder, dtype):
    """(model, everything that was said while it was loaded)"""
    with listening() as said:
        model, info = tiny.auto_class(folder).from_pretrained(folder, dtype=dtype, output_loading_info=True, **tiny.PLAIN)
    # transformers does not know HunYuan's alpha where it judges tables of positions, and computes by it.
    said = [text for text in said if "rope_type" not in text or "alpha" not in text]
    return model.eval(), said + [f"{kind}: {names}" for kind, names in info.items() if names]


def logits(model):
    ids = torch.randint(0, model.config.get_text_config().vocab_size, (2, 17), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        return model(input_ids=ids).logits


def all_tensors(folder):
    tensors = {}
    for file in sorted(folder.glob("model*.safetensors")):
        with safe_open(file, "pt") as opened:
            assert opened.metadata() == {"format": "pt"}, file
        tensors |= load_file(file)
    return tensors


def bytes_of(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def compare_bytes(original, exported):
    before, after = all_tensors(original), all_tensors(exported)
    gone = set(before) - set(after) - {"lm_head.weight"}
    assert all(name.endswith(("attn.bias", "attn.masked_bias")) for name in gone), gone
    assert set(after) <= set(before), set(after) - set(before)
    for name, tensor in after.items():
        assert tensor.dtype == before[name].dtype, name
        assert torch.equal(bytes_of(tensor), bytes_of(before[name])), name


def check_tokenizers(original, exported):
    with listening() as said:
        encoding = AutoTokenizer.from_pretrained(exported)(TEXT)
    assert not said, said
    ours = encoding["input_ids"]
    if (original / "tokenizer_config.json").exists():
        theirs = AutoTokenizer.from_pretrained(original)(TEXT)["input_ids"]
    else:  # transformers goes by the model's family then and puts a <s> in front that tokenizer.json does not have
        theirs = Tokenizer.from_file(str(original / "tokenizer.json")).encode(TEXT).ids
        assert set(encoding) == {"input_ids", "attention_mask"}, set(encoding)  # all that generate() takes
    assert ours == theirs, (ours, theirs)


def said_of(config, key):
    """Without what transformers passes over in a rotary table: another name of its type, and a length that stands next
    to the table too."""
    value = config.to_dict().get(key)  # the attribute is not there to see where blocks differ in it
    if not isinstance(value, dict):
        return value
    return {name: one for name, one in value.items() if name not in ("type", "max_position_embeddings")}


@functools.lru_cache(1)   # neighbours are often compared with the same one
def original_in(folder, dtype):
    model, _ = load(folder, dtype)
    return model, logits(model)


def original_of(folder, dtype):
    """The model and its logits, in its own dtype or another one."""
    if dtype == "same" or {getattr(torch, dtype)} == {tensor.dtype for tensor in all_tensors(folder).values()}:
        return original_in(folder, "auto")
    return original_in(folder, getattr(torch, dtype))


def check_pair(original, exported, dtype):
    own = dtype == "same"
    theirs, expected = original_of(original, dtype)
    ours, said = load(exported, "auto")
    assert not said, said
    assert ours.dtype == theirs.dtype, (ours.dtype, theirs.dtype)
    config = json.loads((exported / "config.json").read_text())
    said_dtype = getattr(torch, config["dtype"] if "dtype" in config else config["torch_dtype"])
    held = {tensor.dtype for tensor in all_tensors(exported).values()}
    assert held == {said_dtype}, (held, said_dtype)
    assert type(ours) is type(theirs), type(ours)
    computed = logits(ours)
    assert torch.equal(computed, expected), (computed - expected).abs().max()
    for key in ("max_position_embeddings", "n_positions", "num_key_value_heads", "rope_theta", "rope_scaling",
                "tie_word_embeddings", "rms_norm_eps", "layer_norm_epsilon", "router_aux_loss_coef",
                "output_router_logits", "sliding_window", "use_sliding_window", "layer_types", "mlp_only_layers",
                "decoder_sparse_step", "embd_pdrop", "attn_pdrop", "resid_pdrop"):
        assert said_of(ours.config, key) == said_of(theirs.config, key), key
    if own:
        compare_bytes(original, exported)
    if own and "text_config" in config:
        assert (exported / "config.json").read_bytes() == (original / "config.json").read_bytes()
        gone = set(all_tensors(original)) - set(all_tensors(exported))
        assert not gone, gone
    if (original / "tokenizer.json").exists():
        check_tokenizers(original, exported)


def check(*arguments):
    faults = 0
    for original, exported, dtype in zip(arguments[::3], arguments[1::3], arguments[2::3]):
        try:
            check_pair(pathlib.Path(original), pathlib.Path(exported), dtype)
        except Exception as fault:  # every pair is said, whatever is wrong with it
            print(f"{exported}: {type(fault).__name__}: {fault}")
            faults += 1
    sys.exit(1 if faults else 0)


def write_logits(folder, out):
    model, said = load(folder, torch.float32)
    with listening() as more:
        ids = AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt")["input_ids"]
    assert not said + more, said + more
    with torch.no_grad():
        save_file({"ids": ids, "logits": model(input_ids=ids).logits}, out)


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    commands = {"variants": variants, "qwen": lambda to: write_qwen(pathlib.Path(to)), "check": check, "logits": write_logits}
    commands[sys.argv[1]](*sys.argv[2:])
