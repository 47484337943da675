#!/usr/bin/env python3
"""tools/bench/models.py CASE…: speed and memory of the real models, on the GPUs of this machine.

Each case is a run of the real program from random weights on random tokens, all of which bear loss unless
data.target_share says otherwise; the step time is the median after the warm-up. A case is
MODEL[+WORD…][@GPUS][:OPTION=VALUE,…]:

  models.py bloom-560m llama-8b-lora mixtral-8l-lora+recompute
  models.py bloom-560m:data.target_share=0.024    # as few labels as SQuAD has
  models.py llama-8b+tp4+sp@4 mixtral-8l+tp2+ep2+full_shard@4 llama-8b+full_shard@4:train.micro_batch=4
  models.py bloom-560m peer:bloom-full:seq=512,mb=4,acc=4,compile=1 --peer hf_peer.py

MODEL sets the sizes (--list prints them), a WORD adds a strategy: tpN, sp (with tpN), epN, ppN, cpN, recompute, nf4 and mxfp4
(with a -lora MODEL), and one of fsdp's modes or zero0 to zero3. peer:NAME runs a script given by --peer, through torchrun where GPUS is more than one.
One JSON line a case: case, gpus, step_s, tokens_per_s_per_gpu, peak_gib (GPU memory in tensors while steps ran, the
largest rank), setup_gib (the same before the first step), host_gib, parameters, last_loss, predicted_step_s and
predicted_peak_gib (what check and plan predict of this very run, where they do), seconds (the whole run).
"""
import argparse
import json
import pathlib
import re
import shutil
import sys
import tempfile
import time

from runs import circumstances, end_on_sigterm, measure_all, predicted, read_run, run, table

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

LORA = {'rank': 32, 'targets': ['linear_qkv', 'linear_proj']}
ALL_LINEAR = {'rank': 16, 'targets': ['all-linear']}


def sizes(plugin, preset, seq, micro_batch, accumulation, lora=False, **model):
    return {'model': {'plugin': plugin, **({'preset': preset} if preset else {}), **model}, 'seq': seq, 'micro_batch': micro_batch,
            'accumulation': accumulation, 'lora': lora}


MODELS = {
    'gpt-10m': sizes('gpt', None, 256, 8, 1, hidden_size=256, num_layers=10, num_heads=8, vocab_size=8192, seq_length=256,
                     dropout=0.0),   # for --device cpu --precision fp32
    'bloom-560m': sizes('bloom', 'bloom-560m', 512, 4, 4),
    'llama-8b': sizes('llama', 'llama3.1-8b', 2048, 2, 1),
    'llama-8b-lora': sizes('llama', 'llama3.1-8b', 2048, 1, 8, lora=True),
    'mixtral-8l': sizes('mixtral', 'mixtral-8x7b', 2048, 2, 1, num_layers=8),
    'mixtral-8l-lora': sizes('mixtral', 'mixtral-8x7b', 2048, 4, 1, lora=True, num_layers=8),
    'mixtral-8x7b': sizes('mixtral', 'mixtral-8x7b', 2048, 1, 1),
    'mixtral-8x7b-lora': sizes('mixtral', 'mixtral-8x7b', 2048, 1, 2, lora=True),
    'qwen3-16l-lora': sizes('qwen3', 'qwen3-30b-a3b', 2048, 2, 1, lora=True, num_layers=16),
    'qwen3-30b-lora': sizes('qwen3', 'qwen3-30b-a3b', 2048, 2, 1, lora=True),
    'gemma3-4b-lora': sizes('gemma3', 'gemma3-4b-text', 2048, 2, 4, lora=ALL_LINEAR),
    'glm4-9b-lora': sizes('glm4', 'glm4-9b-0414', 2048, 2, 4, lora=ALL_LINEAR),
    'gpt-oss-20b-lora': sizes('gpt_oss', 'gpt-oss-20b', 2048, 2, 4, lora=ALL_LINEAR),
    # Adapters where peft's "all-linear" has them, which leaves stacked experts out.
    'gpt-oss-20b-attention': sizes('gpt_oss', 'gpt-oss-20b', 2048, 2, 4,
                                   lora={'rank': 16, 'targets': ['linear_qkv', 'linear_proj']}),
    'qwen35-4b-lora': sizes('qwen3_5', 'qwen3.5-4b', 2048, 2, 4, lora=ALL_LINEAR),
}
WORDS = r'tp(\d+)|ep(\d+)|pp(\d+)|cp(\d+)|sp|recompute|full_shard|shard_grad_op|hybrid_shard|no_shard|zero[0-3]|nf4|mxfp4'
CASE = re.compile(rf'(?P<model>[\w-]+?)(?P<words>(\+({WORDS}))*)(@(?P<gpus>\d+))?(:(?P<options>.*))?')
PEER = re.compile(r'peer:(?P<name>[\w-]+)(@(?P<gpus>\d+))?(:(?P<options>.*))?')


def strategies(words, lora):
    """The strategy tables that a case's words ask for, and over how many ranks one sample is spread."""
    tables, spread = {}, 1
    shared = {'tp': 'tensor_parallel', 'pp': 'pipeline_parallel', 'cp': 'context_parallel'}   # whose ranks have the same samples
    for word in words:
        kind, count = (word, '') if word in ('nf4', 'mxfp4') else re.fullmatch(r'([a-z_]+)(\d*)', word).groups()
        if kind in shared:
            tables.setdefault(shared[kind], {})['size'] = int(count)
            spread *= int(count)
        elif kind == 'sp':
            tables.setdefault('tensor_parallel', {})['sequence_parallel'] = True
        elif kind == 'ep':
            tables['expert_parallel'] = {'size': int(count)}
        elif kind == 'zero':
            tables['zero'] = {'stage': int(count)}
        elif kind in ('nf4', 'mxfp4'):
            tables[kind] = {}
        elif kind == 'recompute':
            tables['recompute'] = {'every': 1}
        else:
            tables['fsdp'] = {'mode': word}
    if lora:
        tables['lora'] = LORA if lora is True else lora
    return tables, spread


def configuration(match, arguments, folder):
    """The TOML file of one of our cases."""
    size, gpus = MODELS[match['model']], int(match['gpus'] or 1)
    tables, spread = strategies([word for word in match['words'].split('+') if word], size['lora'])
    steps = arguments.warmup + arguments.steps
    batch = size['micro_batch'] * size['accumulation'] * max(1, gpus // spread)
    text = table('run', {'name': 'bench', 'dir': str(folder), 'seed': 1, 'device': arguments.device,
                         'save_weights': False, 'host_memory': 1000})
    text += table('model', size['model'])
    text += table('data', {'plugin': 'synthetic', 'samples': steps * batch, 'max_length': size['seq'] + 1})
    text += table('train', {'max_steps': steps, 'micro_batch': size['micro_batch'],
                            'accumulation': size['accumulation'], 'precision': arguments.precision})
    text += table('optimizer', {'lr': 1e-5, 'schedule': 'constant', 'clip': 1.0})
    return text + ''.join(table(f'strategy.{name}', options) for name, options in tables.items())


def measure_ours(match, arguments, scratch):
    gpus = int(match['gpus'] or 1)
    config = scratch / 'bench.toml'
    config.write_text(configuration(match, arguments, scratch), encoding='utf-8')
    options = [*filter(None, (match['options'] or '').split(',')), *arguments.set]
    command = [str(arguments.capstan), 'run', str(config), *options]
    if gpus > 1:
        command += ['-n', str(gpus)]
    error = run(command, scratch / 'output.log', arguments.timeout, gpus)
    if error:
        return {'error': error}
    return {**read_run(scratch / 'bench', arguments.warmup, gpus, arguments.device != 'cpu'), **predicted(scratch / 'output.log')}


def measure_peer(match, arguments, scratch):
    gpus = int(match['gpus'] or 1)
    words = [match['name'], *filter(None, (match['options'] or '').split(','))]
    if not any(word.startswith('steps=') for word in words):
        words.append(f'steps={arguments.steps}')
    if not any(word.startswith('warm=') for word in words):
        words.append(f'warm={arguments.warmup}')
    start = [arguments.python]
    if gpus > 1:
        start += ['-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', str(gpus)]
    log = scratch / 'output.log'
    error = run([*start, str(arguments.peer), *words], log, arguments.timeout, gpus)
    results = [line for line in log.read_text(encoding='utf-8', errors='replace').splitlines() if 'RESULT {' in line]
    if error or not results:
        return {'error': error or 'it printed no RESULT line'}
    result = json.loads(results[-1].split('RESULT ', 1)[1])
    return {'step_s': result['step_s'], 'tokens_per_s_per_gpu': result['tok_s_gpu'], 'peak_gib': result['peak_gib'],
            'parameters': result['params']}


def measure(case, arguments):
    """One case in a folder of its own, which goes with it."""
    start = time.monotonic()
    peer = PEER.fullmatch(case)
    with tempfile.TemporaryDirectory(prefix='capstan-bench-', dir=arguments.scratch) as folder:
        one = measure_peer if peer else measure_ours
        numbers = one(peer or CASE.fullmatch(case), arguments, pathlib.Path(folder))
    gpus = int((peer or CASE.fullmatch(case))['gpus'] or 1)
    return {'case': case, 'gpus': gpus, **numbers, 'seconds': round(time.monotonic() - start, 1)}


def record(arguments, results):
    """The measurement with all that it depends on."""
    training = {'precision': arguments.precision, 'steps': arguments.steps, 'warmup': arguments.warmup,
                'options': arguments.set}
    return {**circumstances(arguments), 'models': MODELS, 'training': training, 'results': results}


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('cases', nargs='*', metavar='CASE')
    parser.add_argument('--list', action='store_true', help='print the models and their sizes')
    parser.add_argument('--device', choices=('cuda', 'cpu'), default='cuda')
    parser.add_argument('--precision', default='bf16', help='train.precision (default bf16)')
    parser.add_argument('--steps', type=int, default=8, help='measured steps (default 8)')
    parser.add_argument('--warmup', type=int, default=4, help='steps before them (default 4)')
    parser.add_argument('--set', action='append', default=[], metavar='OPTION=VALUE', help='for all of our cases')
    parser.add_argument('--capstan', type=pathlib.Path, default=ROOT / 'build' / 'cuda' / 'bin' / 'capstan')
    parser.add_argument('--peer', type=pathlib.Path, help='script of the peer: cases')
    parser.add_argument('--python', default=sys.executable, help='the Python that runs peers')
    parser.add_argument('--scratch', help='folder for runs (default: temporary)')
    parser.add_argument('--timeout', type=float, default=300, help='seconds a case may take (default 300)')
    parser.add_argument('--record', type=pathlib.Path, help='also write all results, with models, hardware and date')
    arguments = parser.parse_args(words)
    for case in arguments.cases:
        if PEER.fullmatch(case):
            if arguments.peer is None:
                parser.error(f'{case}: --peer names no script')
        elif not (match := CASE.fullmatch(case)) or match['model'] not in MODELS:
            parser.error(f'there is no case {case}: MODEL[+WORD…][@GPUS][:OPTION=VALUE,…], where MODEL is one of '
                         f'{", ".join(MODELS)} and a WORD tpN, sp, epN, ppN, cpN, recompute, an fsdp mode, zero0 to zero3')
    if any(not PEER.fullmatch(case) for case in arguments.cases) and not shutil.which(arguments.capstan):
        parser.error(f'{arguments.capstan} is not a program: build it, or name it with --capstan')
    if arguments.steps < 1 or arguments.warmup < 0:
        parser.error('--steps is at least 1, --warmup at least 0')
    return arguments


def main(words):
    end_on_sigterm()
    arguments = parse(words)
    if arguments.list or not arguments.cases:
        for name, size in MODELS.items():
            print(json.dumps({'model': name, **size}))
        return 0
    results = measure_all(arguments, measure, record)
    return 1 if any('error' in result for result in results) else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
