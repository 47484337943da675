#!/usr/bin/env python3
"""tools/bench/generate.py CASE…: how many tokens a second are generated, prompts included.

Random weights answer random prompts of --prompt tokens with --new tokens each, --rows at once, all greedily and none
ending early. A case is llama-8b, bloom-560m, mixtral-8l (8 layers of 8x7B), qwen3-16l (16 of 30B-A3B) or tiny, or of the
first two peer:CASE, which is transformers with a static cache, whose decoding it compiles; the peer's first batch, which
compiles, is not counted. Ours is counted whole, with the recording of its graph. With --gpus N each data rank answers
--rows at once. Prints a JSON line a case.

  generate.py llama-8b peer:llama-8b bloom-560m peer:bloom-560m
  generate.py mixtral-8l --gpus 2 --set strategy.expert_parallel.size=2
  generate.py tiny --device cpu --precision fp32 --rows 4 --batches 2 --prompt 32 --new 8
"""
import argparse
import json
import pathlib
import random
import shutil
import sys
import tempfile
import time

from runs import circumstances, end_on_sigterm, measure_all, run, table

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODELS = {
    'llama-8b': {'plugin': 'llama', 'preset': 'llama3.1-8b'},
    'bloom-560m': {'plugin': 'bloom', 'preset': 'bloom-560m'},
    'mixtral-8l': {'plugin': 'mixtral', 'preset': 'mixtral-8x7b', 'num_layers': 8},
    'qwen3-16l': {'plugin': 'qwen3', 'preset': 'qwen3-30b-a3b', 'num_layers': 16},
    'tiny': {'plugin': 'llama', 'vocab_size': 512, 'hidden_size': 64, 'num_layers': 2, 'num_heads': 4,
             'num_kv_heads': 2, 'ff_dim': 128, 'seq_length': 512},
}
PEERS = ('llama-8b', 'bloom-560m')


def write_prompts(arguments, path):
    """As JSON lines: letters, which are a token each."""
    letters = random.Random(1)
    with open(path, 'w', encoding='utf-8') as lines:
        for _ in range(arguments.rows * arguments.batches):
            prompt = ''.join(letters.choices('abcdefghijklmnopqrstuvwxyz', k=arguments.prompt))
            lines.write(json.dumps({'prompt': prompt, 'completion': 'x'}) + '\n')


def measure_ours(case, arguments, scratch):
    write_prompts(arguments, scratch / 'prompts.jsonl')
    config = scratch / 'generate.toml'
    text = table('run', {'name': 'generate', 'dir': str(scratch), 'seed': 1, 'device': arguments.device, 'host_memory': 1000})
    text += table('model', MODELS[case])
    text += table('data', {'plugin': 'jsonl', 'tokenizer': 'byte', 'eval': str(scratch / 'prompts.jsonl'),
                           'max_length': arguments.prompt + arguments.new + 2})
    text += table('train', {'eval_batch': arguments.rows, 'max_new_tokens': arguments.new, 'precision': arguments.precision})
    config.write_text(text, encoding='utf-8')
    log = scratch / 'output.log'
    command = [str(arguments.capstan), 'eval', str(config), *arguments.set, '-n', str(arguments.gpus)]
    error = run(command, log, arguments.timeout, arguments.gpus)
    found = sorted(scratch.rglob('evaluation-eval.json'))
    if error or not found:
        return {'error': error or 'it wrote no evaluation-eval.json'}
    result = json.loads(found[-1].read_text(encoding='utf-8'))
    answers = json.loads(found[-1].with_name('predictions-eval.json').read_text(encoding='utf-8'))
    return {'seconds': result['answers_runtime_s'], 'answers': result['answers'], 'distinct': len(set(answers.values()))}


def peer_model(case):
    import transformers
    if case.startswith('bloom'):
        return transformers.BloomForCausalLM, transformers.BloomConfig(vocab_size=250880, hidden_size=1024, n_layer=24, n_head=16)
    config = transformers.LlamaConfig(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                                      num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=131072,
                                      tie_word_embeddings=False, attn_implementation='sdpa')
    return transformers.LlamaForCausalLM, config


def measure_peer(case, arguments):
    import torch
    torch.set_default_dtype(torch.bfloat16)
    kind, config = peer_model(case)
    with torch.device('cuda'):
        model = kind(config).eval()
    seconds, tokens = [], 0
    for batch in range(1 + arguments.batches):
        ids = torch.randint(0, 256, (arguments.rows, arguments.prompt), device='cuda')
        torch.cuda.synchronize()
        begin = time.monotonic()
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=arguments.new,
                             min_new_tokens=arguments.new, do_sample=False, cache_implementation='static', pad_token_id=0)
        torch.cuda.synchronize()
        seconds.append(time.monotonic() - begin)
        tokens += (out.size(1) - arguments.prompt) * arguments.rows if batch else 0
    del model
    torch.cuda.empty_cache()
    return {'seconds': sum(seconds[1:]), 'first_batch_s': round(seconds[0], 3), 'tokens': tokens}


def measure(case, arguments):
    if case.startswith('peer:'):
        numbers = measure_peer(case.removeprefix('peer:'), arguments)
    else:
        with tempfile.TemporaryDirectory(prefix='capstan-bench-', dir=arguments.scratch) as folder:
            numbers = measure_ours(case, arguments, pathlib.Path(folder))
    if 'error' not in numbers:
        numbers.setdefault('tokens', numbers.get('answers', 0) * arguments.new)
        numbers['new_tokens_per_s'] = round(numbers['tokens'] / numbers['seconds'], 1)
    return {'case': case, **numbers}


def record(arguments, results):
    sizes = {name: getattr(arguments, name) for name in ('rows', 'batches', 'prompt', 'new', 'precision', 'gpus')}
    return {**circumstances(arguments), **sizes, 'results': results}


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('cases', nargs='+', metavar='CASE')
    for name, value, what in (('rows', 64, 'prompts at once'), ('batches', 4, 'batches'), ('prompt', 256, 'tokens of a prompt'),
                              ('new', 64, 'tokens of an answer'), ('gpus', 1, 'ranks of each of our cases')):
        parser.add_argument(f'--{name}', type=int, default=value, help=f'{what} (default {value})')
    parser.add_argument('--device', choices=('cuda', 'cpu'), default='cuda')
    parser.add_argument('--precision', default='bf16', help='train.precision (default bf16)')
    parser.add_argument('--set', action='append', default=[], metavar='OPTION=VALUE', help='for all of our cases')
    parser.add_argument('--capstan', type=pathlib.Path, default=ROOT / 'build' / 'cuda' / 'bin' / 'capstan')
    parser.add_argument('--scratch', help='folder for runs (default: temporary)')
    parser.add_argument('--timeout', type=float, default=300, help='seconds a case may take (default 300)')
    parser.add_argument('--record', type=pathlib.Path, help='also write all results, with sizes, hardware and date')
    arguments = parser.parse_args(words)
    for case in arguments.cases:
        if case not in MODELS and case.removeprefix('peer:') not in PEERS:
            parser.error(f'there is no case {case}: {", ".join(MODELS)}, or peer: and {" or ".join(PEERS)}')
    if any(not case.startswith('peer:') for case in arguments.cases) and not shutil.which(arguments.capstan):
        parser.error(f'{arguments.capstan} is not a program: build it, or name it with --capstan')
    if min(arguments.rows, arguments.batches, arguments.prompt, arguments.new, arguments.gpus) < 1:
        parser.error('--rows, --batches, --prompt, --new and --gpus are at least 1')
    return arguments


def main(words):
    end_on_sigterm()
    results = measure_all(arguments := parse(words), measure, record)
    return 1 if any('error' in result for result in results) else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
