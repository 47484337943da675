"""Makes a small tokenizer.json of each family as the published files are built, with added tokens of every kind.

FAMILIES has them by name; published_tokenizers.py has those of today's models.
"""
import json
import pathlib
import random

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
ROOT = pathlib.Path(__file__).resolve().parents[3]
OTHER_TEXT = """Съешь же ещё этих мягких французских булок, да выпей чаю. 天地玄黄 宇宙洪荒 日月盈昃 辰宿列張。 ここは東京です。
다람쥐 헌 쳇바퀴에 타고파. العربية لغة جميلة، أليس كذلك؟ हिन्दी में लिखा हुआ पाठ। Ünïcödé naïve façade 🙂🙂 👩‍👩‍👧 १२३ ٣٤٥
def f(x):\n    return  x ** 2  # it's, they're, I'LL, we'd\n\n\t\tif a != b:\r\n\r\n        print("...", 12345, 3.14159)\n"""


def corpus():
    data = json.loads((ROOT / "configs/data/mini_squad_train.json").read_text())
    text = [p["context"] for article in data["data"] for p in article["paragraphs"]]
    return text + [q["question"] for a in data["data"] for p in a["paragraphs"] for q in p["qas"]] + [OTHER_TEXT] * 40


def added(content, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": False, **flags}


ADDED = [added("<|begin|>", special=True), added("<|end|>", special=True), added("<|en"), added("[L]", lstrip=True),
         added("[R]", rstrip=True, special=True), added("[LR]", lstrip=True, rstrip=True), added("and", single_word=True),
         added("über", single_word=True, lstrip=True), added("a b", normalized=True), added("\n\n\n"),
         added("Paris", normalized=True), added("norm", normalized=True, lstrip=True, special=True)]


def template(*names):
    """A template's "single" and special_tokens, $A for the text."""
    single = [{"Sequence": {"id": "A", "type_id": 0}} if n == "$A" else {"SpecialToken": {"id": n, "type_id": 0}}
              for n in names]
    return lambda ids: {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": {
        n: {"id": n, "ids": [ids[n]], "tokens": [n]} for n in names if n != "$A"}}


def trained(tokenizer, size, **options):
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, **options)
    tokenizer.train_from_iterator(corpus(), trainer)
    return json.loads(tokenizer.to_str())


def finished(file, post_processor=None, extra=ADDED, drop=0.0, legacy_merges=False):
    """Adds tokens after the vocabulary; leaves out a part of the merges, so that some tokens are made by none."""
    model = file["model"]
    chosen = random.Random(3)
    model["merges"] = [merge for merge in model["merges"] if chosen.random() >= drop]
    if legacy_merges:
        model["merges"] = [" ".join(merge) for merge in model["merges"]]
    next_id, ids = len(model["vocab"]), dict(model["vocab"])
    file["added_tokens"] = []
    for token in extra:
        if token["content"] not in ids:
            ids[token["content"]] = next_id
            next_id += 1
        file["added_tokens"].append({"id": ids[token["content"]], **token})
    file["added_tokens"].sort(key=lambda token: token["id"])
    if post_processor:
        file["post_processor"] = post_processor(ids)
    return file


def byte_level(pre_tokenizer, size=1500, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    return trained(tokenizer, size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def split(pattern):
    parts = [pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
             pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    return pre_tokenizers.Sequence(parts)


def gpt2():
    file = finished(byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)), legacy_merges=True, drop=0.05)
    file["post_processor"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False}
    del file["model"]["type"], file["model"]["ignore_merges"], file["model"]["byte_fallback"]
    file["model"].update(continuing_subword_prefix="", end_of_word_suffix="")  # as GPT-2's own file
    return file


def gpt2_spaced():
    """With a prefix space, and a vocabulary that lacks some bytes: one gives nothing."""
    file = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), 900)
    for character in ("é", "Ð", "z"):
        token_id = file["model"]["vocab"].pop(character)
        file["model"]["vocab"][f"[unused {token_id}]"] = token_id
    file["model"]["merges"] = [m for m in file["model"]["merges"] if not set("".join(m)) & set("éÐz")]
    return finished(file)


def bloom():
    file = finished(byte_level(split(BLOOM), 2500), drop=0.05)
    file["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    return file


def llama3():
    both = lambda ids: {"type": "Sequence", "processors": [  # noqa: E731
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        template("<|begin|>", "$A")(ids)]}
    return finished(byte_level(split(LLAMA3), 3000, ignore_merges=True), both, drop=0.2)


def sentencepiece(size=1800, bytes_left_out=(), **model):
    """Vocabulary as SentencePiece's: <unk> <s> </s>, the bytes, then merges and characters."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", **model))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=True)  # else the trainer would merge over words
    file = trained(tokenizer, size)
    first = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256) if b not in bytes_left_out]
    rest = [t for t in file["model"]["vocab"] if t not in first]
    file["model"]["vocab"] = {token: i for i, token in enumerate(first + rest)}
    file["pre_tokenizer"] = None
    file["decoder"] = json.loads(decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
        decoders.Strip(content=" ", left=1, right=0)]).__getstate__())
    return file


SPECIAL = [added("<unk>", special=True), added("<s>", special=True), added("</s>", special=True)]


def llama2():
    return finished(sentencepiece(fuse_unk=True, byte_fallback=True), template("<s>", "$A"), SPECIAL + ADDED)


def metaspace(**options):
    return {"type": "Metaspace", "replacement": "▁", **options}


def mixtral():
    file = sentencepiece(fuse_unk=True, byte_fallback=True)
    file.update(normalizer=None, pre_tokenizer=metaspace(prepend_scheme="first", split=False))
    return finished(file, template("<s>", "$A"), SPECIAL + ADDED, drop=0.02)


def unknown():
    """No byte fallback for some bytes, unknown tokens not fused, words cut at each "▁"."""
    file = sentencepiece(byte_fallback=True, bytes_left_out=(0xD0, 0xE5, 0xF0), fuse_unk=False)
    file.update(normalizer=None, pre_tokenizer=metaspace(prepend_scheme="always", split=True))
    return finished(file, template("<s>", "$A", "</s>"), SPECIAL + ADDED)


def fused_unknown():
    file = sentencepiece(byte_fallback=True, bytes_left_out=(0xD0, 0xE5, 0xF0), fuse_unk=True, ignore_merges=True)
    file.update(normalizer=None, pre_tokenizer=metaspace(prepend_scheme="never", split=True))
    return finished(file, template("<s>", "$A", "</s>", "</s>"), SPECIAL + ADDED)


FAMILIES = {f.__name__: f for f in (gpt2, gpt2_spaced, bloom, llama3, llama2, mixtral, unknown, fused_unknown)}


def write(file, folder):
    path = pathlib.Path(folder) / "tokenizer.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(file, ensure_ascii=False))
    return path
