#!/usr/bin/env python3
"""tools/bench/rows.py DATA CASE…: samples a second on real rows of many lengths, early and late in a run.

Each case trains a model from random weights on SQuAD's questions, on the GPUs of this machine. A shape of rows that has
not come before costs more than one that has, so that rates rise while a run lasts: they are given for parts of it. A case
is MICRO_BATCHxACCUMULATION[@GPUS][:OPTION=VALUE,…]:

  rows.py data/squad/train.json 4x4 4x4@2 16x1@2:train.pad_to_multiple=8 --tokenizer data/bloom_tokenizer

One JSON line a case: case, gpus, samples_per_s by part of the run ("20-60": its steps 20 to 59, their samples by the sum
of their step_time_s), peak_gib (memory in tensors while steps ran, the largest rank; on CPUs all of the process), seconds (the whole run).
"""
import argparse
import json
import pathlib
import re
import shutil
import sys
import tempfile
import time

from runs import GIB, circumstances, end_on_sigterm, measure_all, run, table

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CASE = re.compile(r'(?P<micro>\d+)x(?P<accumulation>\d+)(@(?P<gpus>\d+))?(:(?P<options>.*))?')


def configuration(match, arguments, folder):
    text = table('run', {'name': 'bench', 'dir': str(folder), 'seed': 1, 'device': arguments.device, 'save_weights': False})
    text += table('model', {'plugin': arguments.preset.split('-')[0], 'preset': arguments.preset})
    tokenizer = {'tokenizer': str(arguments.tokenizer.resolve())} if arguments.tokenizer else {}
    text += table('data', {'plugin': 'squad', 'train': str(arguments.data.resolve()), 'max_length': 512, **tokenizer})
    text += table('train', {'max_steps': arguments.parts[-1], 'micro_batch': int(match['micro']),
                            'accumulation': int(match['accumulation']), 'precision': arguments.precision})
    return text + table('optimizer', {'lr': 1e-5, 'schedule': 'constant', 'clip': 1.0})


def rates(folder, parts, samples):
    """Samples a second of each part, where a step has `samples`."""
    lines = (folder / 'metrics.jsonl').read_text(encoding='utf-8').splitlines()
    steps = [line for line in map(json.loads, lines) if 'step_time_s' in line]
    found = {}
    for begin, end in zip(parts, parts[1:]):
        part = [line for line in steps if begin < line['step'] <= end]
        found[f'{begin}-{end}'] = round(len(part) * samples / sum(line['step_time_s'] for line in part), 1)
    return found


def measure(case, arguments):
    start, match = time.monotonic(), CASE.fullmatch(case)
    gpus = int(match['gpus'] or 1)
    with tempfile.TemporaryDirectory(prefix='capstan-bench-') as folder:
        scratch = pathlib.Path(folder)
        config, log = scratch / 'bench.toml', scratch / 'output.log'
        config.write_text(configuration(match, arguments, scratch), encoding='utf-8')
        command = [str(arguments.capstan), 'run', str(config), *filter(None, (match['options'] or '').split(','))]
        error = run([*command, *(['-n', str(gpus)] if gpus > 1 else [])], log, arguments.timeout, gpus)
        if error:
            return {'case': case, 'error': error}
        summary = json.loads((scratch / 'bench' / 'summary.json').read_text(encoding='utf-8'))
        peak = max(rank['device' if arguments.device == 'cuda' else 'host'] for rank in summary['peak_memory_bytes']) / GIB
        samples = gpus * int(match['micro']) * int(match['accumulation'])
        return {'case': case, 'gpus': gpus, 'samples_per_s': rates(scratch / 'bench', arguments.parts, samples),
                'peak_gib': round(peak, 2), 'seconds': round(time.monotonic() - start, 1)}


def record(arguments, results):
    return {**circumstances(arguments), 'data': f'squad, {arguments.data.name}, max_length 512',
            'model': {'preset': arguments.preset}, 'training': {'precision': arguments.precision}, 'results': results}


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('data', type=pathlib.Path, metavar='DATA', help='a JSON file of SQuAD')
    parser.add_argument('cases', nargs='+', metavar='CASE')
    parser.add_argument('--tokenizer', type=pathlib.Path, help='its folder (tools/train-tokenizer; default: bytes)')
    parser.add_argument('--device', choices=('cuda', 'cpu'), default='cuda')
    parser.add_argument('--precision', default='bf16', help='train.precision (default bf16)')
    parser.add_argument('--preset', default='bloom-560m', help='model.preset, whose first word is the plugin (default bloom-560m)')
    parser.add_argument('--parts', type=lambda text: [int(one) for one in text.split(',')], default=[0, 20, 60, 120, 240],
                        metavar='STEP,STEP…', help='where parts of a run begin and end (default 0,20,60,120,240)')
    parser.add_argument('--capstan', type=pathlib.Path, default=ROOT / 'build' / 'cuda' / 'bin' / 'capstan')
    parser.add_argument('--timeout', type=float, default=300, help='seconds a case may take (default 300)')
    parser.add_argument('--record', type=pathlib.Path, help='also write all results, with model, hardware and date')
    arguments = parser.parse_args(words)
    for case in arguments.cases:
        if not CASE.fullmatch(case):
            parser.error(f'there is no case {case}: MICRO_BATCHxACCUMULATION[@GPUS][:OPTION=VALUE,…]')
    if not shutil.which(arguments.capstan):
        parser.error(f'{arguments.capstan} is not a program: build it, or name it with --capstan')
    if len(arguments.parts) < 2 or arguments.parts != sorted(set(arguments.parts)):
        parser.error('--parts names at least two steps, each larger than the one before')
    return arguments


def main(words):
    end_on_sigterm()
    results = measure_all(arguments := parse(words), measure, record)
    return 1 if any('error' in result for result in results) else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
