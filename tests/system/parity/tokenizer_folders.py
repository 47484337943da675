"""Random folders around one tokenizer.json, and what transformers makes of them.

    tokenizer_folders.py COUNT SEED FOLDER

FOLDER gets COUNT folders 0, 1, … each with tokenizer.json and some of tokenizer_config.json, special_tokens_map.json and
added_tokens.json, and cases.json: for each folder the texts' ids without and with special tokens, the texts of these ids, and
the end and padding ids.
"""
import json
import logging
import os
import pathlib
import random
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from transformers import AutoTokenizer  # noqa: E402

from tokenizer_files import added, byte_level, finished, template  # noqa: E402
from tokenizers import pre_tokenizers  # noqa: E402

HELD = ["<s>", "</s>", "<pad>", "[L]"]
NEW = ["<x>", "<y>", "new", "ab c"]
NAMES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token", "image_token"]
TEXTS = ["", "a <x> b <y> c", "<s>Hello</s>", "new  [L] renewed ab c<pad>  <x>\n", " </s> <s> in <x><y>in ",
         "Where is Paris? [L]in</s>"]
WORD = "in"  # of the vocabulary, and no added token


def flags(chosen, content, typed=False):
    token = {"content": content}
    for key in ("lstrip", "rstrip", "single_word", "normalized", "special"):
        if chosen.random() < 0.7:
            token[key] = chosen.random() < 0.4
    return token | ({"__type": "AddedToken"} if typed else {})


def named(chosen, typed):
    """Keys that name tokens, mostly ones that tokenizer.json has. One with flags has the same under each key."""
    out, of_text = {}, {}
    for name in chosen.sample(NAMES, chosen.randint(0, 4)):
        may_be_new = name not in ("eos_token", "pad_token")  # Capstan refuses new ones of these
        content = chosen.choice(HELD + [WORD] + (NEW if may_be_new else []))
        out[name] = chosen.choice([content, content, None, of_text.setdefault(content, flags(chosen, content, typed))])
    return out


def config_of(chosen, size):
    config = {"tokenizer_class": "PreTrainedTokenizerFast"} | named(chosen, True)
    if chosen.random() < 0.4:
        ids = {str(i): added(t) for i, t in enumerate(HELD, size)}
        for i, content in enumerate(chosen.sample(NEW, chosen.randint(0, 3)), size + len(HELD)):
            ids[str(i)] = added(content)
        for token in ids.values():
            if chosen.random() < 0.3:
                token.update(flags(chosen, token["content"]))
        config["added_tokens_decoder"] = ids
    if chosen.random() < 0.4:
        config[chosen.choice(["extra_special_tokens", "additional_special_tokens"])] = chosen.sample(HELD + NEW, 2)
    if chosen.random() < 0.2:
        config["extra_special_tokens"] = {"audio_token": chosen.choice(HELD + NEW)}
    for key in ("add_bos_token", "add_eos_token", "clean_up_tokenization_spaces", "legacy", "add_prefix_space"):
        if chosen.random() < 0.3:
            config[key] = chosen.random() < 0.5
    return config


def special_map(chosen):
    out = {key: value for key, value in named(chosen, False).items() if value is not None or chosen.random() < 0.5}
    if chosen.random() < 0.4:
        key = chosen.choice(["additional_special_tokens", "extra_special_tokens"])
        out[key] = chosen.sample(HELD + NEW, 2)
    return out


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False))


def answer_of(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    plain = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    full = [tokenizer(text)["input_ids"] for text in TEXTS]
    return {"plain": plain, "full": full, "decoded": [tokenizer.decode(ids, skip_special_tokens=True) for ids in full],
            "end": tokenizer.eos_token_id, "pad": tokenizer.pad_token_id}


def main(count, seed, folder):
    logging.disable(logging.WARNING)
    chosen = random.Random(int(seed))
    base = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), 400)
    assert WORD in base["model"]["vocab"], "choose another word"
    size = len(base["model"]["vocab"])
    held = [added(t, special=t != "[L]", lstrip=t == "[L]") for t in HELD]
    file = finished(base, template("<s>", "$A"), held)
    cases = []
    for i in range(int(count)):
        place = pathlib.Path(folder) / str(i)
        place.mkdir()
        write_json(place / "tokenizer.json", file)
        write_json(place / "tokenizer_config.json", config_of(chosen, size))
        if chosen.random() < 0.6:
            write_json(place / "special_tokens_map.json", special_map(chosen))
        if chosen.random() < 0.4:
            new = chosen.sample(NEW, chosen.randint(1, 3))
            write_json(place / "added_tokens.json", {t: size + len(HELD) + k for k, t in enumerate(new)})
        cases.append(answer_of(place))
    write_json(pathlib.Path(folder) / "cases.json", {"texts": TEXTS, "cases": cases})


if __name__ == "__main__":
    main(*sys.argv[1:])
