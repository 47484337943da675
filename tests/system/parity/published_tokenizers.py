"""The tokenizer.json files of today's models: their normalizer, pre-tokenizer, post-processor, decoder, added tokens and
the model's flags as they are published, around a small vocabulary that is trained here. FAMILIES has them by name.

Where they are from:
  qwen2, gemma, llama_legacy   transformers 4.57, convert_slow_tokenizer.py: Qwen2Converter, GemmaConverter, LlamaConverter;
                               Qwen's added tokens: Qwen/Qwen2.5-0.5B, tokenizer_config.json
  others                       the expressions that github.com/ggml-org/llama.cpp, src/llama-vocab.cpp (commit 00ad355)
                               quotes as "original regex from tokenizer.json", or has from there, under the model's name
"""
import json

from tokenizers import Regex, decoders, normalizers, pre_tokenizers

from tokenizer_files import ADDED, LLAMA3, SPECIAL, added, byte_level, finished, metaspace, sentencepiece, template

QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ENDING"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*ENDING|NUMBER"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT4O = CASED.replace("ENDING", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?").replace("NUMBER", r"\p{N}{1,3}")
TEKKEN = CASED.replace("ENDING", "").replace("NUMBER", r"\p{N}")
CJK = "[一-龥\u3040-ゟ゠-ヿ]+"
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+")
BAILING = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
EXAONE = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?"
          r"|\s*[\r\n]|\s+(?!\S)|\s+")
# What Kimi K2's own code cuts at, an intersection of classes.
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")

QWEN_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>",
                "<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>",
                "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"]
QWEN_PLAIN = ["<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
              "<|repo_name|>", "<|file_sep|>"]
QWEN_ADDED = [added(token, special=True) for token in QWEN_SPECIAL] + [added(token) for token in QWEN_PLAIN]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior=behavior, invert=invert)


def bytes_alone():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def state(part):
    return json.loads(part.__getstate__())


def byte_level_file(*steps, size=1800, normalizer=None, extra=ADDED, post=None, **model):
    """Steps before ByteLevel."""
    file = finished(byte_level(pre_tokenizers.Sequence([*steps, bytes_alone()]), size, **model), post, extra)
    file["normalizer"] = state(normalizer) if normalizer else None
    return file


def qwen2(extra=(), size=1800):
    """Qwen 2, 2.5 and 3."""
    file = byte_level_file(split(QWEN2), size=size, normalizer=normalizers.NFC(), extra=QWEN_ADDED + list(extra))
    file["post_processor"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    file["model"].update(continuing_subword_prefix="", end_of_word_suffix="", ignore_merges=False)
    return file


def qwen2_more():
    return qwen2(ADDED)


def qwen35():
    return byte_level_file(split(QWEN35), normalizer=normalizers.NFC())


def gemma():
    """Gemma 1 to 3. In their files spaces are "▁" already when Split looks for them."""
    special = [added(token, special=True) for token in ("<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>")]
    file = sentencepiece(fuse_unk=True, byte_fallback=True)
    file["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    file["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
    file["decoder"] = state(decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]))
    spaces = [added("▁" * n) for n in range(2, 6)] + [added("\n" * n) for n in range(2, 4)] + [added("<unused0>")]
    return finished(file, template("<bos>", "$A"), SPECIAL + special + spaces)


def llama_legacy():
    """Llama 2, TinyLlama, Phi-3 (whose added tokens take the white space after them)."""
    phi3 = [added("<|endoftext|>", special=True), added("<|assistant|>", special=True, rstrip=True),
            added("<|end|>", special=True, rstrip=True), added("<|user|>", special=True, rstrip=True)]
    file = sentencepiece(fuse_unk=True, byte_fallback=True)
    return finished(file, template("<s>", "$A"), SPECIAL + phi3)


def mistral_metaspace():
    """Mistral v0.3's newer file, decoded by Metaspace."""
    file = sentencepiece(fuse_unk=True, byte_fallback=True)
    file.update(normalizer=None, pre_tokenizer=metaspace(prepend_scheme="first", split=False))
    file["decoder"] = {"type": "Sequence", "decoders": [{"type": "ByteFallback"},
                                                        metaspace(prepend_scheme="always", split=False)]}
    return finished(file, template("<s>", "$A"), SPECIAL + [added("[INST]", special=True), added("[/INST]", special=True)])


def deepseek3():
    """DeepSeek V2 to V3.2 and R1, with their own brackets in special tokens."""
    own = [added("<｜begin▁of▁sentence｜>", special=True), added("<｜end▁of▁sentence｜>", special=True),
           added("<｜User｜>"), added("<｜Assistant｜>"), added("<think>", normalized=True)]
    return byte_level_file(split(r"\p{N}{1,3}"), split(CJK), split(DEEPSEEK), normalizer=normalizers.Sequence([]),
                           extra=own + ADDED, post=template("<｜begin▁of▁sentence｜>", "$A"))


def deepseek_coder():
    return byte_level_file(split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[一-龥ࠀ-一가-\ud7ff]+"),
                           pre_tokenizers.Digits(individual_digits=True))


def deepseek_llm():
    return byte_level_file(split("[\r\n]"), split(r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-Ֆ]+"),
                           split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), split(r"\s+$"), split("[一-龥ࠀ-一가-\ud7ff]+"),
                           pre_tokenizers.Digits(individual_digits=True))


def smollm():
    """SmolLM, StarCoder, Command R, Granite's code models."""
    steps = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    return finished(byte_level(pre_tokenizers.Sequence(steps)))


def neox():
    """Pythia, GPT-NeoX, OLMo, MPT, with their runs of spaces as added tokens (Phi-1 and Phi-2 have them too)."""
    runs = [added(" " * n, normalized=True) for n in range(24, 1, -1)]
    file = finished(byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)), None,
                    [added("<|endoftext|>", special=True), *runs])
    file["normalizer"] = {"type": "NFC"}
    return file


def falcon():
    """Digits and a Split come after ByteLevel, and cut its characters."""
    steps = [pre_tokenizers.Punctuation(behavior="contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
             pre_tokenizers.Digits(individual_digits=False), split("[0-9][0-9][0-9]")]
    return finished(byte_level(pre_tokenizers.Sequence(steps)))


def gpt4o(size=1800):
    """GPT-4o, gpt-oss, Llama 4, Phi-4 mini; as their files have it that were made from tiktoken's."""
    return byte_level_file(split(GPT4O, "removed", True), size=size, ignore_merges=True)


def tekken():
    """Mistral NeMo."""
    return byte_level_file(split(TEKKEN), ignore_merges=True)


def cl100k():
    """Phi-4, DBRX: Llama 3's expression, what it matches being kept instead of cut out."""
    return byte_level_file(split(LLAMA3, "removed", True), ignore_merges=True)


def aya():
    """Tiny Aya and Command A: digits in threes from the right."""
    return byte_level_file(split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(GPT4O), normalizer=normalizers.NFC())


def superbpe():
    """Matches of no length, and behaviors of every kind."""
    return byte_level_file(split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))"), split(r"(?:\r?\n)+(?!\r?\n)", "merged_with_next"),
                           split("é|ü", "merged_with_previous", True), split("[ab]", "contiguous"), split(r"\t", "removed"))


def bailing():
    return byte_level_file(split(BAILING))


def exaone():
    return byte_level_file(split(EXAONE), normalizer=normalizers.NFC())


def kimi():
    return byte_level_file(split(KIMI))


def words():
    """\\w, \\W, \\D, \\B, negated properties, and texts as patterns."""
    return byte_level_file(split(r"\w+|\W+?\B|[\D\P{L}&&[^\w]]|\P{^Sc}\b"), pre_tokenizers.Split("an", "merged_with_next"),
                           pre_tokenizers.Split(".", "contiguous", True), pre_tokenizers.Punctuation("removed"))


def form(*steps):
    return lambda: byte_level_file(split(QWEN2), normalizer=normalizers.Sequence(list(steps)), size=1200)


FAMILIES = {f.__name__: f for f in (qwen2, qwen2_more, qwen35, gemma, llama_legacy, mistral_metaspace, deepseek3,
                                    deepseek_coder, deepseek_llm, smollm, neox, falcon, gpt4o, tekken, cl100k, aya,
                                    superbpe, bailing, exaone, kimi, words)}
FAMILIES |= {"nfd": form(normalizers.NFD(), normalizers.StripAccents()),
             "nfkc": form(normalizers.NFKC(), normalizers.Lowercase()),
             "nfkd": form(normalizers.NFKD(), normalizers.Strip(left=True, right=True)),
             "replaced": form(normalizers.Replace(Regex(r"\s+"), " "), normalizers.Replace("a", ""),
                              normalizers.Replace(Regex(r"(?<=\p{Lu})\p{Ll}"), "_"), normalizers.Strip(left=False))}
