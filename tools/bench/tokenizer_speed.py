#!/usr/bin/env python3
"""How fast Capstan's tokenizers are compared to the `tokenizers` package, on one thread, with vocabularies of real size.

    .deps/venv/bin/python3 tools/bench/tokenizer_speed.py SQUAD.json [--build build/cpu] [--size 32000] [--texts 3000]

Trains one tokenizer.json a family on the file's contexts, encodes these with both, checks that they give as many ids,
and prints load time, MB/s and the ratio (the fastest of five passes each).
"""
import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/system/parity"))

import published_tokenizers as published  # noqa: E402
import tokenizer_files as files  # noqa: E402
from tokenizers import Tokenizer, pre_tokenizers  # noqa: E402


def families(size):
    mixtral = files.sentencepiece(size, fuse_unk=True, byte_fallback=True)
    mixtral.update(normalizer=None, pre_tokenizer=files.metaspace(prepend_scheme="first", split=False))
    made = {"gpt2": files.byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), size),
            "bloom": files.byte_level(files.split(files.BLOOM), size),
            "llama3": files.byte_level(files.split(files.LLAMA3), size, ignore_merges=True),
            "llama2": files.sentencepiece(size, fuse_unk=True, byte_fallback=True), "mixtral": mixtral}
    made = {name: files.finished(file, extra=files.SPECIAL if "<s>" in file["model"]["vocab"] else [])
            for name, file in made.items()}
    return made | {"qwen2": published.qwen2(size=size), "gpt4o": published.gpt4o(size)}


def package(path, texts):
    start = time.perf_counter()
    tokenizer = Tokenizer.from_file(str(path))
    load, best, ids = time.perf_counter() - start, 1e9, 0
    for _ in range(5):
        start = time.perf_counter()
        ids = sum(len(tokenizer.encode(text, add_special_tokens=False)) for text in texts)
        best = min(best, time.perf_counter() - start)
    return load, best, ids


def build_program(build, out):
    command = ["g++", "-std=c++20", "-O2", f"-I{ROOT}/core", f"-I{ROOT}/core/include",
               str(ROOT / "tools/bench/encode_texts.cc"), f"-L{build}/lib", f"-Wl,-rpath,{build}/lib", "-lcapstan",
               "-Wl,--allow-shlib-undefined", "-o", str(out)]
    subprocess.run(command, check=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("squad")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/cpu")
    parser.add_argument("--size", type=int, default=32000)
    parser.add_argument("--texts", type=int, default=3000)
    parser.add_argument("--program", help="a built encode_texts, instead of building it")
    arguments = parser.parse_args()
    contexts = [p["context"] for a in json.loads(pathlib.Path(arguments.squad).read_text())["data"] for p in a["paragraphs"]]
    files.corpus = lambda: contexts
    texts = contexts[:arguments.texts]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program = arguments.program or folder / "encode_texts"
        if not arguments.program:
            build_program(arguments.build.resolve(), program)
        (folder / "texts").write_bytes(b"".join(struct.pack("<I", len(t)) + t for t in map(str.encode, texts)))
        print("family    ids        load s (package)   MB/s (package)   times as fast")
        for name, file in families(arguments.size).items():
            path = folder / name / "tokenizer.json"
            path.parent.mkdir()
            path.write_text(json.dumps(file))
            ours = subprocess.run([program, path.parent, folder / "texts"], check=True, capture_output=True, text=True)
            load, best, ids = map(float, ours.stdout.split())
            their_load, their_best, their_ids = package(path, texts)
            assert ids == their_ids, f"{name}: {ids:.0f} ids, the package gives {their_ids}"
            print(f"{name:<8}  {ids:<9.0f}  {load:.2f} ({their_load:.2f})        {megabytes / best:.1f} "
                  f"({megabytes / their_best:.1f})        {their_best / best:.1f}")


main()
