#!/usr/bin/env python3
"""tools/bench/checkpoint.py CASE…: what saving and resuming a large model costs, on the GPUs of this machine.

Each case is two runs of the real program on random tokens, deterministic. The first saves during its training and is
killed (kill -9 of all its ranks) as soon as the checkpoint is committed; the second continues from that. One JSON line a
case: case, gpus, parameters, gb (bytes of the checkpoint / 1e9), stall_s (how long training waited for the save),
write_s (the rest of it, during training) and write_gb_per_s, step_s (median before the save), step_s_while_saving (the
same until the commit; step_after_save_s: the first of them), start_s and resume_s (from the program's start to the end
of its first step, without and with the checkpoint), bit_equal (losses and gradient norms of the resumed steps are those of
the first run), compared_steps, most_apart (their largest relative difference) and, where it failed, error. With --resume-on
the second run has another number of GPUs: its sums have another order, so that its losses agree up to rounding, and a
third run, on as many GPUs as the second, must be bit-equal to that (again_bit_equal).

  checkpoint.py --gpus 4 fsdp-full_shard                                  # 48 GB of Llama 3.1 8B in pure bf16
  checkpoint.py --gpus 4 --layers 8 --precision bf16 fsdp-full_shard      # fewer layers, fp32 masters: 12 bytes each
  checkpoint.py --gpus 2 --device cpu --precision fp32 --layers 2 --seq 9 --set model.hidden_size=16 \\
      --set model.num_heads=4 --set model.num_kv_heads=2 --set model.ff_dim=24 --set model.vocab_size=300 fsdp-full_shard
  checkpoint.py --gpus 8 --resume-on 4 fsdp-full_shard
  checkpoint.py --list

Cases are those of sharding.py, with options of the configuration after a colon. --scratch takes the checkpoint: a
folder on the disk that is meant. It is read back from the page cache where memory suffices.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from runs import circumstances, end_on_sigterm, measure_all, table, threads
from sharding import ROOT, strategies


def configuration(arguments, case, strategy, folder):
    batch = arguments.micro_batch * max(arguments.gpus, arguments.resume_on)
    sizes = {'num_layers': arguments.layers} if arguments.layers else {}
    text = table('run', {'name': 'saved', 'dir': str(folder), 'seed': 1, 'device': arguments.device,
                         'deterministic': True, 'save_weights': False, 'host_memory': 1000})
    text += table('model', {'plugin': arguments.model, 'preset': arguments.preset, **sizes})
    text += table('data', {'plugin': 'synthetic', 'samples': 1000 * batch, 'max_length': arguments.seq + 1})
    text += table('train', {'max_steps': 1000000, 'micro_batch': arguments.micro_batch, 'global_batch': batch,
                            'precision': arguments.precision})
    text += table('optimizer', {'lr': 1e-5, 'schedule': 'constant', 'clip': 1.0})
    text += table('checkpoint', {'every_steps': arguments.save_after, 'keep': 0})
    if strategy:
        text += table(f'strategy.{strategy[0]}', strategy[1])
    return f'# {case}\n{text}'


class Run:
    """A run of the program in a process group of its own, watched through its metrics.jsonl."""

    def __init__(self, arguments, config, name, options, gpus):
        scratch = config.parent
        self.metrics, self.log = scratch / name / 'metrics.jsonl', scratch / f'{name}.log'
        command = [str(arguments.capstan), 'run', str(config), f'run.name={name}', *options]
        if gpus > 1:
            command += ['-n', str(gpus)]
        settings = dict(os.environ, OMP_NUM_THREADS=os.environ.get('OMP_NUM_THREADS', threads(gpus)))
        self.begin, self.first_step_s = time.monotonic(), None
        self.deadline = self.begin + arguments.timeout
        with open(self.log, 'w', encoding='utf-8') as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                            start_new_session=True, env=settings)

    def lines(self):
        """The whole lines that are there: steps, and checkpoints."""
        text = self.metrics.read_text(encoding='utf-8') if self.metrics.exists() else ''
        lines = [json.loads(line) for line in text.split('\n')[:-1]]
        steps = [line for line in lines if 'step_time_s' in line]
        if steps and self.first_step_s is None:
            self.first_step_s = time.monotonic() - self.begin
        return steps, [line for line in lines if 'stall_s' in line]

    def watch(self, enough):
        """Looks at the lines until that says so; returns what is wrong, or None."""
        while True:
            ended = self.process.poll()
            if enough(*self.lines()):
                return None
            if ended is not None or time.monotonic() > self.deadline:
                tail = self.log.read_text(encoding='utf-8', errors='replace').strip().splitlines()[-12:]
                return '\n'.join(['no end in time' if ended is None else f'exit code {ended}', *tail])
            time.sleep(0.02)

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def numbers_of(run, arguments, steps, save):
    """What the first run tells of the save."""
    after = [step['step_time_s'] for step in steps if step['step'] >= arguments.save_after]
    before = [step['step_time_s'] for step in steps if step['step'] < arguments.save_after]
    return {'gb': round(save['bytes'] / 1e9, 3), 'stall_s': round(save['stall_s'], 4), 'write_s': round(save['write_s'], 3),
            'write_gb_per_s': round(save['bytes'] / 1e9 / save['write_s'], 3),
            'step_s': round(statistics.median(before[len(before) // 2:]), 5),
            'step_after_save_s': round(after[0], 5), 'step_s_while_saving': round(statistics.median(after), 5),
            'start_s': round(run.first_step_s, 2)}


def save(arguments, config, options):
    """The first run, until its checkpoint is committed: numbers, or an error, and its steps."""
    first = Run(arguments, config, 'saved', options, arguments.gpus)
    last = arguments.save_after + arguments.steps
    try:
        error = first.watch(lambda steps, saves: saves and len(steps) >= last)
        steps, saves = first.lines()
    finally:
        first.kill()
    if error:
        return {'error': error}, []
    return numbers_of(first, arguments, steps, saves[0]), steps


def bits(lines):
    return [(line['step'], line['loss'], line['grad_norm']) for line in lines]


def resume(arguments, config, options, name):
    """A run from the checkpoint to its end: its first step's time, its lines and what is wrong, or None."""
    checkpoint = config.parent / 'saved' / 'checkpoints' / f'step-{arguments.save_after:08}'
    last = arguments.save_after + arguments.steps
    run = Run(arguments, config, name, [*options, f'checkpoint.resume={checkpoint}', 'checkpoint.every_steps=0',
                                        f'train.max_steps={last}'], arguments.resume_on)
    try:
        error = run.watch(lambda steps, saves: run.process.poll() == 0)
        lines, _ = run.lines()
    finally:
        run.kill()
    return run.first_step_s, bits(lines), error


def compare(arguments, config, options, steps):
    """What the resumed steps are, compared to those of the first run."""
    first_step_s, resumed, error = resume(arguments, config, options, 'resumed')
    if error:
        return {'error': error}
    summary = json.loads((config.parent / 'resumed' / 'summary.json').read_text(encoding='utf-8'))
    want = bits(steps[arguments.save_after:arguments.save_after + arguments.steps])
    apart = max(abs(a - b) / max(abs(b), 1e-30) for got, wanted in zip(resumed, want) for a, b in zip(got[1:], wanted[1:]))
    numbers = {'parameters': summary['parameters'], 'resume_s': round(first_step_s, 2), 'compared_steps': len(want),
               'bit_equal': resumed == want, 'most_apart': float(f'{apart:.3g}')}
    if arguments.resume_on == arguments.gpus:
        return numbers
    _, again, error = resume(arguments, config, options, 'again')
    return {**numbers, 'resumed_on': arguments.resume_on, **({'error': error} if error else {'again_bit_equal': again == resumed})}


def measure(case, arguments):
    """One case in a folder of its own, which goes with it: checkpoints are large."""
    name, _, overrides = case.partition(':')
    with tempfile.TemporaryDirectory(prefix='capstan-bench-', dir=arguments.scratch) as folder:
        scratch = pathlib.Path(folder)
        config = scratch / 'bench.toml'
        config.write_text(configuration(arguments, case, strategies(arguments.gpus)[name], scratch), encoding='utf-8')
        options = [*filter(None, overrides.split(',')), *arguments.set]
        numbers, steps = save(arguments, config, options)
        if 'error' not in numbers:
            numbers.update(compare(arguments, config, options, steps))
    return {'case': case, 'gpus': arguments.gpus, 'model': arguments.preset, 'layers': arguments.layers,
            'precision': arguments.precision, **numbers}


def record(arguments, results):
    return {**circumstances(arguments), 'options': arguments.set, 'results': results}


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('cases', nargs='*', metavar='CASE')
    parser.add_argument('--list', action='store_true', help='print the cases')
    parser.add_argument('--gpus', type=int, default=1, help='ranks, one GPU each (default 1)')
    parser.add_argument('--resume-on', type=int, help='GPUs of the second run (default: those of the first)')
    parser.add_argument('--device', choices=('cuda', 'cpu'), default='cuda')
    parser.add_argument('--model', default='llama', help='model plugin (default llama)')
    parser.add_argument('--preset', default='llama3.1-8b', help='its sizes (default llama3.1-8b)')
    parser.add_argument('--layers', type=int, help='number of layers, in place of the model\'s own')
    parser.add_argument('--seq', type=int, default=1024, help='positions of a sample (default 1024)')
    parser.add_argument('--micro-batch', type=int, default=1, help='samples of a rank in a step (default 1)')
    parser.add_argument('--precision', default='bf16_pure', help='train.precision (default bf16_pure: 6 bytes a parameter)')
    parser.add_argument('--save-after', type=int, default=10, help='steps before the save (default 10)')
    parser.add_argument('--steps', type=int, default=5, help='steps after it that are compared (default 5)')
    parser.add_argument('--tolerance', type=float, default=0.02, help='for most_apart with --resume-on (default 0.02)')
    parser.add_argument('--set', action='append', default=[], metavar='OPTION=VALUE', help='for all cases')
    parser.add_argument('--capstan', type=pathlib.Path, default=ROOT / 'build' / 'cuda' / 'bin' / 'capstan')
    parser.add_argument('--scratch', help='folder for the runs (default: temporary)')
    parser.add_argument('--timeout', type=float, default=110, help='seconds that each of the two runs may take (default 110)')
    parser.add_argument('--record', type=pathlib.Path, help='also write all results, with the hardware')
    arguments = parser.parse_args(words)
    arguments.resume_on = arguments.resume_on or arguments.gpus
    arguments.known = list(strategies(arguments.gpus))
    for case in arguments.cases:
        if case.partition(':')[0] not in arguments.known:
            parser.error(f'there is no case {case}; --list prints them')
    if arguments.cases and not shutil.which(arguments.capstan):
        parser.error(f'{arguments.capstan} is not a program: build it, or name it with --capstan')
    if min(arguments.gpus, arguments.resume_on, arguments.steps) < 1 or arguments.save_after < 2:
        parser.error('--steps and --gpus are at least 1, --save-after at least 2')
    return arguments


def is_right(result, arguments):
    """Bit-equal where that is promised: on as many ranks as before."""
    if arguments.resume_on == arguments.gpus:
        return result.get('bit_equal', False)
    return result.get('again_bit_equal', False) and result['most_apart'] < arguments.tolerance


def main(words):
    end_on_sigterm()
    arguments = parse(words)
    if arguments.list or not arguments.cases:
        print('\n'.join(arguments.known))
        return 0
    results = measure_all(arguments, measure, record)
    return 0 if all(is_right(result, arguments) for result in results) else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
