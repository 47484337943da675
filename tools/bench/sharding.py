#!/usr/bin/env python3
"""tools/bench/sharding.py CASE…: speed and memory of ways to shard a GPT, on the GPUs of this machine.

Each case is a run of the real program on random tokens; the step time is the median after the warm-up. One JSON line
a case: case, gpus, step_s, tokens_per_s_per_gpu, peak_gib (GPU memory in tensors while steps ran, the largest rank),
setup_gib (the same before the first step), states_gib (what parameters, masters, gradients and moments take on the GPU
by docs/sharding.md's formulas: the rest of the peak is activations and buffers), host_gib (resident set, the largest
rank), parameters and, where it failed, error.

  sharding.py --gpus 4 none fsdp-full_shard zero-3
  sharding.py --gpus 2 --micro-batch 2 --accumulation 2 zero-2-offload zero-3-offload \\
      deepspeed-2-offload deepspeed-3-offload --deepspeed ds_peer.py --python VENV/bin/python
  sharding.py --list

A case may carry options of the configuration after a colon: zero-3:strategy.zero.overlap=false,train.reduce=step
+recompute after a case's name recomputes every unit: fsdp-full_shard+recompute
Cases named deepspeed-… and fsdp2… are peers: scripts given by --deepspeed and --fsdp2, started through torchrun.
"""
import argparse
import json
import pathlib
import shutil
import sys
import tempfile

from runs import GIB, circumstances, end_on_sigterm, measure_all, read_run, run, table

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def strategies(gpus):
    """Our cases: the strategy table of each, (plugin, options); None = no strategy."""
    cases = {
        'none': None,
        'fsdp-full_shard': ('fsdp', {'mode': 'full_shard'}),
        'fsdp-full_shard-keep': ('fsdp', {'mode': 'full_shard', 'reshard_after_forward': False}),
        'fsdp-shard_grad_op': ('fsdp', {'mode': 'shard_grad_op'}),
        'fsdp-hybrid_shard': ('fsdp', {'mode': 'hybrid_shard', 'shard_size': max(1, gpus // 2)}),
        'fsdp-no_shard': ('fsdp', {'mode': 'no_shard'}),
        'fsdp-full_shard-offload': ('fsdp', {'mode': 'full_shard', 'cpu_offload': True, 'pin_memory': True}),
    }
    for stage in range(4):
        cases[f'zero-{stage}'] = ('zero', {'stage': stage})
    for stage in (1, 2, 3):
        offload = {'stage': stage, 'offload_optimizer': 'cpu', 'pin_memory': True}
        if stage == 3:
            offload['offload_param'] = 'cpu'
            cases['zero-3-offload-optimizer'] = ('zero', {k: v for k, v in offload.items() if k != 'offload_param'})
        cases[f'zero-{stage}-offload'] = ('zero', offload)
    return cases


def peers():
    """Their cases: which script, and its arguments."""
    cases = {'fsdp2': ('fsdp2', ['gpt-fsdp2']), 'fsdp2-compile': ('fsdp2', ['gpt-fsdp2', 'compile=1'])}
    for stage in range(4):
        cases[f'deepspeed-{stage}'] = ('deepspeed', ['gpt', f'stage={stage}', 'offload=none'])
    for stage in (1, 2):
        cases[f'deepspeed-{stage}-offload'] = ('deepspeed', ['gpt', f'stage={stage}', 'offload=opt'])
    cases['deepspeed-3-offload'] = ('deepspeed', ['gpt', 'stage=3', 'offload=both'])
    return cases


def states(strategy, parameters, arguments):
    """Bytes on a rank's GPU that do not come and go, by the formulas of docs/sharding.md."""
    _, options = strategy or ('', {})
    mode, stage = options.get('mode', ''), options.get('stage', 0)
    offload = options.get('cpu_offload') or options.get('offload_optimizer') == 'cpu'
    compute = 4 if arguments.precision == 'fp32' else 2
    ranks = options.get('shard_size') or arguments.gpus
    whole_gradients = 4 if arguments.accumulation > 1 and stage == 1 else 0
    if mode == 'no_shard' or (not mode and stage == 0) or (ranks == 1 and not offload):
        raw = arguments.gpus == 1 and arguments.accumulation == 1 and compute == 4  # autograd's own
        return parameters * (12 + (0 if raw else 4) + (0 if compute == 4 else compute))
    per_piece = 4 if offload else 16
    cuts_parameters = stage == 3 or (mode and mode != 'no_shard')
    sends_a_copy = options.get('offload_param') != 'cpu' and not options.get('cpu_offload') and (offload or compute != 4)
    if cuts_parameters and sends_a_copy:
        per_piece += compute
    stays = mode == 'shard_grad_op' or options.get('reshard_after_forward') is False or stage in (1, 2)
    return parameters * ((compute if stays else 0) + whole_gradients + per_piece / ranks)


def configuration(arguments, case, strategy, recompute, folder):
    """The TOML file of one of our cases."""
    steps = arguments.warmup + arguments.steps
    batch = arguments.micro_batch * arguments.accumulation * arguments.gpus
    text = table('run', {'name': 'bench', 'dir': str(folder), 'seed': 1, 'device': arguments.device,
                          'save_weights': False, 'host_memory': 1000})
    text += table('model', {'plugin': 'gpt', 'vocab_size': arguments.vocab, 'hidden_size': arguments.hidden,
                            'num_layers': arguments.layers, 'num_heads': arguments.heads, 'ff_dim': arguments.ff,
                            'seq_length': arguments.seq, 'dropout': 0.0})
    text += table('data', {'plugin': 'synthetic', 'samples': steps * batch, 'max_length': arguments.seq + 1})
    text += table('train', {'max_steps': steps, 'micro_batch': arguments.micro_batch,
                            'accumulation': arguments.accumulation, 'precision': arguments.precision})
    text += table('optimizer', {'lr': 1e-5, 'schedule': 'constant', 'clip': 1.0})
    if strategy:
        text += table(f'strategy.{strategy[0]}', strategy[1])
    if recompute:
        text += table('strategy.recompute', {'every': 1})
    return f'# {case}\n{text}'


def measure_ours(case, arguments, scratch):
    name, _, overrides = case.partition(':')
    base = name.removesuffix('+recompute')
    strategy = strategies(arguments.gpus)[base]
    config = scratch / 'bench.toml'
    config.write_text(configuration(arguments, case, strategy, base != name, scratch), encoding='utf-8')
    command = [str(arguments.capstan), 'run', str(config), *filter(None, overrides.split(',')), *arguments.set]
    if arguments.gpus > 1:
        command += ['-n', str(arguments.gpus)]
    error = run(command, scratch / 'output.log', arguments.timeout, arguments.gpus)
    if error:
        return {'error': error}
    numbers = read_run(scratch / 'bench', arguments.warmup, arguments.gpus, arguments.device != 'cpu')
    if not overrides and not arguments.set:  # options could change what is held
        numbers['states_gib'] = float(f'{states(strategy, numbers["parameters"], arguments) / GIB:.4g}')
    return numbers


def measure_peer(case, arguments, scratch):
    kind, words = peers()[case]
    script = getattr(arguments, kind)
    if script is None:
        return {'error': f'--{kind} names no script'}
    sizes = {'seq': arguments.seq, 'mb': arguments.micro_batch, 'acc': arguments.accumulation, 'h': arguments.hidden,
             'layers': arguments.layers, 'heads': arguments.heads, 'steps': arguments.steps, 'warm': arguments.warmup}
    command = [arguments.python, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node',
               str(arguments.gpus), str(script), *words, *(f'{key}={value}' for key, value in sizes.items())]
    log = scratch / 'output.log'
    error = run(command, log, arguments.timeout, arguments.gpus)
    results = [line for line in log.read_text(encoding='utf-8', errors='replace').splitlines() if 'RESULT {' in line]
    if error or not results:
        return {'error': error or 'it printed no RESULT line'}
    result = json.loads(results[-1].split('RESULT ', 1)[1])
    return {'step_s': result['step_s'], 'tokens_per_s_per_gpu': result['tok_s_gpu'], 'peak_gib': result['peak_gib'],
            'setup_gib': None, 'host_gib': result.get('host_gib'), 'parameters': result['params']}


def measure(case, arguments):
    """One case in a folder of its own, which goes with it: final weights can be large."""
    with tempfile.TemporaryDirectory(prefix='capstan-bench-', dir=arguments.scratch) as folder:
        scratch = pathlib.Path(folder)
        numbers = measure_peer(case, arguments, scratch) if case in peers() else measure_ours(case, arguments, scratch)
    return {'case': case, 'gpus': arguments.gpus, **numbers}


def record(arguments, results):
    """The measurement with all that it depends on."""
    model = {key: getattr(arguments, key) for key in ('vocab', 'hidden', 'layers', 'heads', 'ff', 'seq')}
    batch = {key: getattr(arguments, key) for key in ('micro_batch', 'accumulation', 'precision', 'steps', 'warmup')}
    return {**circumstances(arguments), 'model': model,
            'training': {**batch, 'options': arguments.set}, 'results': results}


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('cases', nargs='*', metavar='CASE')
    parser.add_argument('--list', action='store_true', help='print the cases')
    parser.add_argument('--gpus', type=int, default=1, help='ranks, one GPU each (default 1)')
    parser.add_argument('--device', choices=('cuda', 'cpu'), default='cuda')
    for name, default in (('vocab', 50257), ('hidden', 3072), ('layers', 24), ('heads', 24), ('seq', 1024)):
        parser.add_argument(f'--{name}', type=int, default=default, help=f'of the GPT (default {default})')
    parser.add_argument('--ff', type=int, help='of the GPT (default 4 x hidden)')
    parser.add_argument('--micro-batch', type=int, default=2, help='samples a rank computes at once (default 2)')
    parser.add_argument('--accumulation', type=int, default=1, help='micro-steps of a step (default 1)')
    parser.add_argument('--precision', default='bf16', help='train.precision (default bf16)')
    parser.add_argument('--steps', type=int, default=8, help='measured steps (default 8)')
    parser.add_argument('--warmup', type=int, default=4, help='steps before them (default 4)')
    parser.add_argument('--set', action='append', default=[], metavar='OPTION=VALUE', help='for all of our cases')
    parser.add_argument('--capstan', type=pathlib.Path, default=ROOT / 'build' / 'cuda' / 'bin' / 'capstan')
    parser.add_argument('--deepspeed', type=pathlib.Path, help='script of the deepspeed-… cases')
    parser.add_argument('--fsdp2', type=pathlib.Path, help='script of the fsdp2… cases')
    parser.add_argument('--python', default=sys.executable, help='the Python that runs peers')
    parser.add_argument('--scratch', help='folder for runs, which write their final weights there (default: temporary)')
    parser.add_argument('--timeout', type=float, default=300, help='seconds a case may take (default 300)')
    parser.add_argument('--record', type=pathlib.Path, help='also write all results, with model, hardware and date')
    arguments = parser.parse_args(words)
    arguments.ff = arguments.ff or 4 * arguments.hidden
    arguments.known = [*strategies(arguments.gpus), *peers()]
    for case in arguments.cases:
        base = case.partition(':')[0].removesuffix('+recompute')
        if base not in arguments.known or (case != base and base in peers()):
            parser.error(f'there is no case {case}; --list prints them')
    ours = [case for case in arguments.cases if case not in peers()]
    if ours and not shutil.which(arguments.capstan):
        parser.error(f'{arguments.capstan} is not a program: build it, or name it with --capstan')
    if arguments.steps < 1 or arguments.warmup < 0 or arguments.gpus < 1:
        parser.error('--steps and --gpus are at least 1, --warmup at least 0')
    return arguments


def main(words):
    end_on_sigterm()
    arguments = parse(words)
    if arguments.list or not arguments.cases:
        print('\n'.join(arguments.known))
        return 0
    results = measure_all(arguments, measure, record)
    return 1 if any('error' in result for result in results) else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
