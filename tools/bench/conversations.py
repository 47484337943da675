#!/usr/bin/env python3
"""A million conversations rendered and tokenised: Capstan's token cache beside `datasets.map` with transformers.

    PYTHON tools/bench/conversations.py SQUAD.json [--rows 1000000] [--program build/cpu/bin/capstan] [--out FOLDER] [--ranks 2]

PYTHON has transformers, datasets and psutil. Writes conversations of four messages made of SQuAD's questions, trains a
tokenizer on them, and gives its folder a template in ChatML's form. Then `capstan run` makes its token cache (one step of a
tiny model afterwards), and `datasets.map` with two processes tokenises by apply_chat_template, batched; both in turns,
--times times. Prints seconds and the peak of all processes' memory without pages of files (proportional shares), and the
ratio. Of up to 20,000 rows the number of all tokens is compared.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] | trim + '<|im_end|>\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
CONFIG = """[run]
device = "cpu"
dir = "{out}/runs"
[model]
plugin = "llama"
vocab_size = {words}
hidden_size = 8
num_layers = 1
num_heads = 2
ff_dim = 16
seq_length = 2048
[data]
plugin = "jsonl"
tokenizer = "{out}/model"
chat_template = "model"
train = "{out}/conversations.jsonl"
cache = "{out}/tokens"
derived = "{out}/derived"
[train]
max_steps = 1
micro_batch = 1
global_batch = {ranks}
"""


def write_rows(squad, file, count):
    """Conversations of two questions and their answers, each with the passage first; every row is another one."""
    asked = [(paragraph["context"], qa["question"], qa["answers"][0]["text"])
             for article in json.loads(pathlib.Path(squad).read_text(encoding="utf-8"))["data"]
             for paragraph in article["paragraphs"] for qa in paragraph["qas"] if qa["answers"]]
    with open(file, "w", encoding="utf-8") as out:
        for row in range(count):
            context, question, answer = asked[row % len(asked)]
            _, other, second = asked[(row * 7 + row // len(asked)) % len(asked)]
            texts = [f"{row}. {context}\n{question}", answer, other, second]
            messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
            out.write(json.dumps({"messages": messages}, ensure_ascii=False) + "\n")


def write_tokenizer(file, folder, size=32000):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()

    def texts():
        with open(file, encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                if number == 20000:
                    return
                yield from (message["content"] for message in json.loads(line)["messages"])

    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=[AddedToken(word, special=True) for word in ("<|im_start|>", "<|im_end|>", "<pad>")])
    tokenizer.train_from_iterator(texts(), trainer)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<pad>", "chat_template": TEMPLATE}))
    return tokenizer.get_vocab_size()


def memory_of(process):
    """Proportional shares of a process and all below it, without pages of files, in MiB."""
    import psutil
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            for line in pathlib.Path(f"/proc/{one.pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss_Anon:"):
                    total += int(line.split()[1])
        except (OSError, psutil.Error):
            pass
    return total / 1024


def measured(command, environment=None):
    """Seconds, and the peak of memory looked at four times a second."""
    import psutil
    start = time.monotonic()
    process = subprocess.Popen([str(part) for part in command], env={**os.environ, **(environment or {})},
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said, peak = [], 0.0
    reader = threading.Thread(target=lambda: said.extend(process.stdout), daemon=True)
    reader.start()
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        peak = max(peak, memory_of(watched))
        time.sleep(0.25)
    reader.join()
    if process.returncode:
        sys.exit("".join(said[-40:]))
    return time.monotonic() - start, peak, "".join(said)


PEER = """
import sys
from datasets import load_dataset
from transformers import AutoTokenizer
out, rows = sys.argv[1], int(sys.argv[2])
tokenizer = AutoTokenizer.from_pretrained(out + "/model")
data = load_dataset("json", data_files=out + "/conversations.jsonl", split="train", cache_dir=out + "/peer")
def work(batch):
    return {"input_ids": tokenizer.apply_chat_template(batch["messages"], tokenize=True, return_dict=False)}
done = data.map(work, batched=True, batch_size=1000, num_proc=2, remove_columns=["messages"])
assert len(done) == rows
if rows <= 20000:
    print("TOKENS", sum(len(ids) for ids in done["input_ids"]))
"""


def peer(out, rows):
    shutil.rmtree(out / "peer", ignore_errors=True)
    return measured([sys.executable, "-c", PEER, out, rows], {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"})


def ours(program, out, ranks):
    for folder in ("tokens", "derived", "runs"):
        shutil.rmtree(out / folder, ignore_errors=True)
    return measured([program, "run", "-n", ranks, out / "config.toml"])


def compare(program, out, said):
    """The number of tokens of all rows."""
    text = measured([program, "data", out / "config.toml", "--show", 1, "--statistics"])[2]
    own = int(re.search(r"bear loss \(.*? of ([\d,]+)\)", text)[1].replace(",", ""))
    theirs = int(re.search(r"^TOKENS (\d+)$", said, re.MULTILINE)[1])
    print(f"{own:,} tokens, transformers {theirs:,}")
    if own != theirs:
        sys.exit("they differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("squad")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/cpu/bin/capstan")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("/tmp/conversations"))
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=2)
    given = parser.parse_args()
    shutil.rmtree(given.out, ignore_errors=True)
    given.out.mkdir(parents=True)
    write_rows(given.squad, given.out / "conversations.jsonl", given.rows)
    words = write_tokenizer(given.out / "conversations.jsonl", given.out / "model")
    (given.out / "config.toml").write_text(CONFIG.format(out=given.out, words=words, ranks=given.ranks))
    size = (given.out / "conversations.jsonl").stat().st_size / 1e6
    print(f"{given.rows:,} conversations, {size:,.0f} MB, {words:,} words")
    for _ in range(given.times):
        own_s, own_mib, _ = ours(given.program, given.out, given.ranks)
        print(f"capstan run (cache, then a step): {own_s:,.0f} s, peak {own_mib:,.0f} MiB", flush=True)
        peer_s, peer_mib, said = peer(given.out, given.rows)
        print(f"datasets.map, two processes: {peer_s:,.0f} s, peak {peer_mib:,.0f} MiB; {peer_s / own_s:.2f} of Capstan's time", flush=True)
    if given.rows <= 20000:
        compare(given.program, given.out, said)


if __name__ == "__main__":
    main()
