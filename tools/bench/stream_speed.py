#!/usr/bin/env python3
"""`capstan tokenize --to stream` beside the `tokenizers` package's batch mode, on all cores of this machine.

    .deps/venv5/bin/python3 tools/bench/stream_speed.py SQUAD.json [--megabytes 100] [--rounds 3] [--program build/cpu/bin/capstan]

Writes the file's contexts again and again as JSON lines, trains a tokenizer.json of 32,000 tokens a family on them, and
lets both tokenize the file by turns. Checks that the tokens are the same. Prints seconds of each round: Capstan's for
everything from the file to .bin and .idx, the package's for encode_batch alone, and with reading, JSON and writing.
"""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "true"
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/system/parity"))

import numpy  # noqa: E402
import tokenizer_files as files  # noqa: E402
from tokenizers import Tokenizer, pre_tokenizers  # noqa: E402

BATCH = 1000


def families(size):
    llama2 = files.sentencepiece(size, fuse_unk=True, byte_fallback=True)
    made = {"gpt2": files.byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), size),
            "llama3": files.byte_level(files.split(files.LLAMA3), size, ignore_merges=True), "llama2": llama2}
    return {name: files.finished(file, extra=files.SPECIAL if "<s>" in file["model"]["vocab"] else [])
            for name, file in made.items()}


def by_package(path, corpus, out):
    """Seconds of encode_batch, and of all."""
    tokenizer, encoding, batch = Tokenizer.from_file(str(path)), 0.0, []
    begin = time.perf_counter()
    with open(corpus) as lines, open(out, "wb") as tokens:
        def flush():
            nonlocal encoding
            start = time.perf_counter()
            encoded = tokenizer.encode_batch(batch, add_special_tokens=False)
            encoding += time.perf_counter() - start
            for one in encoded:
                tokens.write(numpy.array(one.ids, dtype=numpy.uint16).tobytes())
            batch.clear()
        for line in lines:
            batch.append(json.loads(line)["text"])
            if len(batch) == BATCH:
                flush()
        flush()
    return encoding, time.perf_counter() - begin


def by_capstan(program, path, corpus, out):
    for ending in (".bin", ".idx"):
        pathlib.Path(out + ending).unlink(missing_ok=True)
    begin = time.perf_counter()
    subprocess.run([program, "tokenize", path, "--to", "stream", "--out", out, "--no-end", "--no-begin", corpus],
                   check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("squad")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=32000)
    parser.add_argument("--families", nargs="+", default=["gpt2", "llama3", "llama2"])
    parser.add_argument("--program", default=str(ROOT / "build/cpu/bin/capstan"))
    arguments = parser.parse_args()
    contexts = [p["context"] for a in json.loads(pathlib.Path(arguments.squad).read_text())["data"] for p in a["paragraphs"]]
    files.corpus = lambda: contexts
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        corpus, written = folder / "corpus.jsonl", 0
        with open(corpus, "w") as out:
            while written < arguments.megabytes * 1e6:
                for text in contexts:
                    written += len(text.encode())
                    out.write(json.dumps({"text": text}) + "\n")
        megabytes = written / 1e6
        print(f"{megabytes:.0f} MB of text, {os.cpu_count()} cores\nfamily    Capstan s  encode_batch s  all of Python s  times encode_batch")
        made = families(arguments.size)
        for name in arguments.families:
            file = made[name]
            path = folder / name / "tokenizer.json"
            path.parent.mkdir()
            path.write_text(json.dumps(file))
            for _ in range(arguments.rounds):
                ours = by_capstan(arguments.program, str(path), str(corpus), str(folder / "ours"))
                encoding, whole = by_package(path, corpus, folder / "theirs.bin")
                assert (folder / "ours.bin").read_bytes() == (folder / "theirs.bin").read_bytes(), f"{name}: other tokens"
                print(f"{name:<8}  {ours:<9.1f}  {encoding:<14.1f}  {whole:<15.1f}  {encoding / ours:.2f}", flush=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"Capstan's memory: at most {used:.0f} MiB")


main()
