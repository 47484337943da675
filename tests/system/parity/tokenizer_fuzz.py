"""Random texts, and what the `tokenizers` package makes of them.

    tokenizer_fuzz.py FAMILY COUNT SEED FOLDER

FOLDER gets tokenizer.json (see tokenizer_files.py and published_tokenizers.py) and cases.bin, which holds COUNT records of seven lists, each a u32
length and its items: a text (bytes), its ids without and with special tokens (u32), random ids (u32), their text (bytes), the text's ids where names
of special tokens are text, and where its tokens begin and end (bytes; none where a normal form changes the text, or a byte is lost).
"""
import json
import os
import random
import struct
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from tokenizers import Tokenizer  # noqa: E402

import published_tokenizers  # noqa: E402
from tokenizer_files import ADDED, FAMILIES, OTHER_TEXT, SPECIAL, corpus, write  # noqa: E402

SPACES = " \t\n\r\v\f\x1c\x85\xa0\u1680\u2000\u2003\u200a\u2028\u2029\u202f\u205f\u3000\u200b\ufeff"
DIGITS = "0123456789²½٣४৫Ⅷ①〇🄀𝟗"
MARKS = "\u0301\u0308\u0327\u0e31\u094d\u200d\ufe0f\u20e3"
# What normal forms change: composed and decomposed, several marks in another order, Hangul's parts, compatibility
# characters, singletons, exclusions, and characters that some Unicode versions do not know.
FORMS = ["é", "e\u0301", "a\u0323\u0307", "a\u0307\u0323", "ǖ", "u\u0308\u0304", "가", "\u1100\u1161\u11a8", "ﬁ", "①", "Ａ", "ｶﾞ",
         "㍿", "Å", "Ω", "\u0958", "が", "\u304b\u3099", "\u0344", "½", "ª", "\u1e9b\u0323", "\U0001d15e", "\u2adc", "İ", "ẞ", "Σ",
         "\u32ff", "\U00011935\U00011930", "a\u08ca\u0301", "\U0001fbf0", "\ua7f2", "Ა", "\U00010d50", "Ⴀ"]
PUNCTUATION = "'’`\"()[]{}|.,!?…。，、।۔،-_+=*/\\@#$%^&~<>:;▁Ġ�"
ENDINGS = ["'s", "'S", "'t", "'re", "'Re", "'ve", "'VE", "'m", "'ll", "'lL", "'d", "'ſ", "'x", "''s", " 's", "'r", "'l"]
PLANES = [(0x20, 0x7F), (0x80, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE00), (0x1100, 0x1200),
          (0x1E00, 0x2C00), (0x2E80, 0xA000), (0xA000, 0xD800), (0xE000, 0x10000), (0x10000, 0x20000),
          (0x20000, 0x32000), (0xE0000, 0xE0200), (0xF0000, 0x110000)]


class Fuzzer:
    def __init__(self, seed, own_tokens):
        self.random = random.Random(seed)
        self.words = (" ".join(corpus()[:200]) + OTHER_TEXT).split(" ")
        self.tokens = [token["content"] for token in SPECIAL + ADDED] + own_tokens
        self.kinds = [self.word, self.word, self.spaces, self.digits, self.ending, self.mark, self.anything,
                      self.punctuation, self.token, self.repeated, self.byte_token, self.form]

    def word(self):
        return self.random.choice(["", " ", " "]) + self.random.choice(self.words)

    def spaces(self):
        plain = self.random.random() < 0.6
        return "".join(self.random.choices(" \n\r\t" if plain else SPACES, k=self.random.randint(1, 5)))

    def digits(self):
        return "".join(self.random.choices(DIGITS, k=self.random.randint(1, 8)))

    def ending(self):
        return self.random.choice(ENDINGS)

    def mark(self):
        return self.random.choice("aeßक✈") + "".join(self.random.choices(MARKS, k=self.random.randint(1, 3)))

    def anything(self):
        low, high = self.random.choice(PLANES)
        return "".join(chr(self.random.randrange(low, high)) for _ in range(self.random.randint(1, 6)))

    def punctuation(self):
        return "".join(self.random.choices(PUNCTUATION, k=self.random.randint(1, 4)))

    def token(self):
        token = self.random.choice(self.tokens)
        cut = self.random.randint(1, len(token)) if self.random.random() < 0.2 else len(token)
        around = self.random.choice(["", "", " ", "  ", "\n"]), self.random.choice(["", "", " ", "  ", "x"])
        return around[0] + token[:cut] + around[1]

    def repeated(self):
        return self.random.choice([" ", "a", "=", "\n", "é", "ab", "漢", "\t", "🙂"]) * self.random.randint(2, 30)

    def byte_token(self):
        return f"<0x{self.random.randrange(256):02X}>"

    def form(self):
        return "".join(self.random.choices(FORMS, k=self.random.randint(1, 4)))

    def text(self):
        parts = self.random.choice([0, 1, 1, 2, 3, 5, 8, 13, 40])
        return "".join(self.random.choice(self.kinds)() for _ in range(parts))

    def ids(self, vocab_size):
        """Any ids, some that don't exist; often neighbours, so that byte tokens follow each other."""
        bound = self.random.choice([300, vocab_size + 5])
        return [self.random.randrange(bound) for _ in range(self.random.randint(0, 12))]


def listed(values):
    if isinstance(values, str):
        values = values.encode()
        return struct.pack("<I", len(values)) + values
    return struct.pack(f"<I{len(values)}I", len(values), *values)


def untrimmed(file):
    """The tokenizer without its post-processor, which leaves spaces out of ranges."""
    tokenizer = Tokenizer.from_str(json.dumps(file | {"post_processor": None}))
    tokenizer.no_truncation()
    return tokenizer


def kinds_of(part):
    parts = part.get("normalizers", [part]) if part else []
    return {kind for one in parts for kind in (kinds_of(one) if "normalizers" in one else {one["type"]})}


def ranges(tokenizer, joins, loses, text):
    """As bytes. Where a byte is lost that no token stands for, the package takes what follows for it."""
    encoded = tokenizer.encode(text, add_special_tokens=False)
    written = tokenizer.decode(encoded.ids, skip_special_tokens=False)
    if joins and tokenizer.normalizer.normalize_str(text) != text or loses and "".join(written.split()) != "".join(text.split()):
        return []
    at = [0]
    for character in text:
        at.append(at[-1] + len(character.encode()))
    return [at[place] for pair in encoded.offsets for place in pair]


def main(family, count, seed, folder):
    file = (FAMILIES | published_tokenizers.FAMILIES)[family]()
    tokenizer = Tokenizer.from_file(str(write(file, folder)))
    tokenizer.no_truncation()
    ordinary = Tokenizer.from_file(folder + "/tokenizer.json")
    ordinary.no_truncation()
    ordinary.encode_special_tokens = True
    whole = untrimmed(file)
    joins = bool(kinds_of(file["normalizer"]) & {"NFC", "NFD", "NFKC", "NFKD"})
    loses = file["model"].get("unk_token") is None and not file["model"].get("byte_fallback")
    fuzzer = Fuzzer(int(seed), [token["content"] for token in file["added_tokens"]])
    size = tokenizer.get_vocab_size()
    with open(folder + "/cases.bin", "wb") as out:
        for _ in range(int(count)):
            text, ids = fuzzer.text(), fuzzer.ids(size)
            plain = tokenizer.encode(text, add_special_tokens=False).ids
            full = tokenizer.encode(text).ids
            if fuzzer.random.random() < 0.5:
                ids = plain
            decoded = tokenizer.decode(ids, skip_special_tokens=True)
            as_text = ordinary.encode(text, add_special_tokens=False).ids
            out.write(b"".join(map(listed, (text, plain, full, ids, decoded, as_text, ranges(whole, joins, loses, text)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
