#!/usr/bin/env python3
"""tools/bench/eight.py GPUS: the largest rows that one machine can give, in one call, on 2, 4 or 8 GPUs.

Llama 3.1 8B with LoRA, data parallel; Llama 8B whole under full_shard at 8192 tokens; tensor parallelism; pipelines and context
parallelism; Mixtral 8x7B by tensor and expert parallelism, LoRA and all parameters; BLOOM-560M's weak scaling by both of the workshop's ways (`capstan
sweep --weak`): rows of models.py on 1, 2, 4 … GPUs, each with what check and plan predict of it. Then what plan would have
chosen; preflight's table; a checkpoint with moments, resumed on as many GPUs, on half of them, and the other way round
(checkpoint.py); kill -9 of a rank while it trains and while it saves (tests/system/chaos). Prints Markdown.

  eight.py 8 --record tools/bench/records/eight-8xh200.json --peer peer.py --scratch /local/disk
  eight.py 2 --only llama,checkpoint --seconds 110
  eight.py 8 --cpu                          # all of it with CPU ranks and small sizes: nothing to measure, all to check

--peer adds FSDP2 with torch.compile next to full_shard (models.py says how such a script is called). What --seconds leaves
no time for is named as not run. Exit status 1 where anything failed.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import checkpoint
import models
from runs import circumstances, end_on_sigterm

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LONG = 'data.max_length=8193,train.micro_batch=1'
STAGES = 'train.accumulation=16,train.micro_batch=1,data.max_length=4097,data.samples=400'
ALL_LINEAR = 'strategy.lora.rank=16,strategy.lora.targets=["all-linear"],train.accumulation=1'
GPU = 'h200-141g'
# Sizes for CPU ranks; 8 heads and experts, so that 8 ranks may share them.
SMALL = ['train.precision=fp32', 'model.hidden_size=64', 'model.num_heads=8', 'model.vocab_size=304', 'data.max_length=33']
SMALL_OF = {'llama': ['model.num_kv_heads=8', 'model.ff_dim=64', 'model.num_layers=2'],
            'mixtral': ['model.num_kv_heads=8', 'model.ff_dim=32', 'model.num_layers=2'], 'bloom': ['model.num_layers=1']}


def rows(gpus):
    """(group, what it is, case of models.py), the smaller machines' rows first."""
    for n in (n for n in (1, 2, 4, 8) if n <= gpus):
        yield 'llama', f'Llama 8B LoRA, data parallel on {n}, global batch 8', f'llama-8b-lora@{n}:train.accumulation={8 // n}'
        if n > 1:
            yield 'llama', f'Llama 8B LoRA, data parallel on {n}, 1 x 8 a GPU', f'llama-8b-lora@{n}'
        yield 'bloom', f'BLOOM-560M, weak scaling by samples, {n}', f'bloom-560m@{n}:train.micro_batch=16,train.accumulation=1'
        yield 'bloom', f'BLOOM-560M, weak scaling by layers, {n}', (
            f'bloom-560m+full_shard@{n}:model.num_layers={24 * n},train.micro_batch={16 // n},train.accumulation=1')
    n = gpus
    for n in sorted({max(2, gpus // 2), gpus}):
        yield 'full', f'Llama 8B, all parameters, full_shard on {n}, 8192 tokens', f'llama-8b+full_shard@{n}:{LONG}'
    yield 'full', f'the same by FSDP2 and torch.compile on {n}', f'peer:llama-fsdp2@{n}:seq=8192,mb=1,compile=1'
    yield 'tp', f'Llama 8B, all parameters, TP {n}', f'llama-8b+tp{n}+sp@{n}:train.precision=bf16_pure'
    if n > 2:
        yield 'tp', f'Llama 8B, all parameters, TP {n // 2} x dp 2', f'llama-8b+tp{n // 2}+sp@{n}:train.precision=bf16_pure'
        yield 'mixtral', f'Mixtral 8x7B, LoRA, TP {n // 2} x EP 2', f'mixtral-8x7b-lora+tp{n // 2}+ep2@{n}'
    yield 'mixtral', f'Mixtral 8x7B, LoRA, EP {n}', f'mixtral-8x7b-lora+ep{n}@{n}'
    stages = STAGES if n > 2 else f'{STAGES},train.precision=bf16_pure'   # of an 8B's half 16 bytes a parameter do not fit
    for schedule in ('1f1b', 'interleaved', 'zero_bubble', 'dualpipev'):
        yield 'pp', f'Llama 8B, all parameters, PP {n}, {schedule}, 16 x 4096', (
            f'llama-8b+pp{n}@{n}:strategy.pipeline_parallel.schedule={schedule},{stages}')
    yield 'cp', 'Llama 8B, LoRA on all linears, recompute, 32768 tokens on 1', (
        f'llama-8b-lora+recompute:data.max_length=32769,model.seq_length=32768,{ALL_LINEAR}')
    for method in ('ulysses', 'gather', 'ring'):
        yield 'cp', f'the same, {32768 * n} tokens on {n}, {method}', (
            f'llama-8b-lora+recompute+cp{n}@{n}:data.max_length={32768 * n + 1},model.seq_length={32768 * n},{ALL_LINEAR},'
            f'strategy.context_parallel.method={method}')
    if n == 8:   # 47 x 10^9 parameters of 6 bytes, and their gradients
        yield 'mixtral', 'Mixtral 8x7B, all parameters, TP 4 x EP 2', 'mixtral-8x7b+tp4+ep2+full_shard@8:train.precision=bf16_pure'
        yield 'mixtral', 'Mixtral 8x7B, all parameters, EP 8', 'mixtral-8x7b+ep8+full_shard@8:train.precision=bf16_pure'


def end(process):
    """It cleans up after itself if it can; nothing that it has started stays."""
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class Session:
    """What has been measured so far, and how much time is left."""

    def __init__(self, arguments):
        self.arguments, self.until = arguments, time.monotonic() + arguments.seconds
        self.results, self.failed = [], False

    def left(self):
        return min(self.arguments.timeout, self.until - time.monotonic())

    def keep(self, group, name, numbers):
        self.failed = self.failed or 'error' in numbers
        self.results.append({'group': group, 'row': name, **numbers})
        print(json.dumps(self.results[-1]), file=sys.stderr, flush=True)
        if self.arguments.record:
            record = {**circumstances(self.arguments), 'gpus': self.arguments.gpus, 'models': models.MODELS, 'results': self.results}
            self.arguments.record.write_text(json.dumps(record, indent=2) + '\n', encoding='utf-8')

    def common(self):
        """Words that models.py and checkpoint.py share."""
        words = ['--capstan', str(self.arguments.capstan), '--timeout', str(self.left())]
        words += ['--scratch', self.arguments.scratch] if self.arguments.scratch else []
        return [*words, '--device', 'cpu', '--precision', 'fp32'] if self.arguments.cpu else words

    def model(self, group, name, case):
        peer = case.startswith('peer:')
        if peer and not self.arguments.peer:
            return self.keep(group, name, {'case': case, 'not_run': '--peer names no script'})
        if self.left() < 10:
            return self.keep(group, name, {'case': case, 'not_run': 'no time was left'})
        if self.arguments.cpu and not peer:
            plugin = models.MODELS[models.CASE.fullmatch(case)['model']]['model']['plugin']
            layers = [] if 'num_layers' in case else SMALL_OF[plugin][-1:]
            case = ','.join([*case.split(',')] if ':' in case else [case + ':'])
            small = [*SMALL, *SMALL_OF[plugin][:-1], *layers]
            case = re.sub(r'(num_layers=)(\d+)', lambda m: m[1] + str(int(m[2]) // 24), case)
            case = case.rstrip(':') + (',' if not case.endswith(':') else ':') + ','.join(small)
        words = [case, *self.common(), '--steps', str(self.arguments.steps), '--warmup', str(self.arguments.warmup)]
        words += ['--peer', str(self.arguments.peer), '--python', self.arguments.python] if peer else []
        return self.keep(group, name, models.measure(case, models.parse(words)))

    def command(self, group, name, words, read):
        """A program of its own; read(text) makes numbers of what it printed."""
        if self.left() < 10:
            return self.keep(group, name, {'not_run': 'no time was left'})
        begin = time.monotonic()
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   cwd=ROOT, start_new_session=True)
        try:
            text, _ = process.communicate(timeout=self.left())
        except subprocess.TimeoutExpired:
            end(process)
            return self.keep(group, name, {'error': 'no end in time'})
        numbers = {'seconds': round(time.monotonic() - begin, 1), 'command': ' '.join(map(str, words)), **read(text)}
        return self.keep(group, name, {**numbers, **({'error': text[-2000:]} if process.returncode else {})})

    def plan(self, folder):
        """What plan would have chosen for each family on this number of GPUs."""
        gpus = self.arguments.gpus
        for case in ('llama-8b-lora', 'llama-8b', 'mixtral-8x7b-lora', 'bloom-560m'):
            words = models.parse([f'{case}@{gpus}', *self.common()])
            config = folder / f'{case}.toml'
            config.write_text(models.configuration(models.CASE.fullmatch(f'{case}@{gpus}'), words, folder), encoding='utf-8')
            options = [*SMALL, *SMALL_OF[models.MODELS[case]['model']['plugin']]] if self.arguments.cpu else []
            self.command('plan', f"plan's choice for {case} on {gpus}",
                         [self.arguments.capstan, 'plan', config, '--gpus', gpus, '--gpu', self.arguments.gpu, 'run.device=cuda', *options],
                         lambda text: {'table': text.strip()})

    def preflight(self, folder):
        config = folder / 'preflight.toml'
        case = models.CASE.fullmatch(f'bloom-560m@{self.arguments.gpus}')
        config.write_text(models.configuration(case, models.parse([case[0], *self.common()]), folder), encoding='utf-8')
        small = [*SMALL, *SMALL_OF['bloom']] if self.arguments.cpu else []
        self.command('preflight', 'preflight', [self.arguments.capstan, 'preflight', config, '-n', self.arguments.gpus, *small],
                     lambda text: {'table': text.strip()})

    def checkpoints(self):
        gpus = self.arguments.gpus
        for first, second in ((gpus, gpus), (gpus, gpus // 2), (gpus // 2, gpus)):
            name = f'checkpoint of {first} resumed on {second}'
            if self.left() < 20:
                self.keep('checkpoint', name, {'not_run': 'no time was left'})
                continue
            words = ['fsdp-full_shard', '--gpus', str(first), '--resume-on', str(second), *self.common()]
            words += ['--layers', str(self.arguments.layers)] if self.arguments.layers and not self.arguments.cpu else []
            if self.arguments.cpu:
                words += [word for option in [*SMALL[1:-1], *SMALL_OF['llama']] for word in ('--set', option)]
                words += ['--seq', '32', '--tolerance', '1e-4']
            options = checkpoint.parse(words)
            numbers = checkpoint.measure('fsdp-full_shard', options)
            if 'error' not in numbers and not checkpoint.is_right(numbers, options):
                numbers['error'] = 'resumed steps are not what they must be'
            self.keep('checkpoint', name, numbers)

    def kills(self):
        count = ['--ranks' if self.arguments.cpu else '--gpus', self.arguments.gpus]
        self.command('kill', 'kill -9 of a rank, while it trains and while it saves',
                     [ROOT / 'tests/system/chaos/run', self.arguments.capstan.resolve().parent.parent, *count, '--seed', 8,
                      '--blows', 'kill rank@training,kill rank@saving'],
                     lambda text: {'rounds': re.findall(r'^round.*', text, re.MULTILINE)})


def cell(number, form='{:,.1f}'):
    return '' if number is None else form.format(number)


def markdown(results):
    """The tables for docs/speed.md."""
    lines = ['| row | tokens/s a GPU | step, ms | predicted | actual/predicted | peak GiB | predicted |', '|---|---|---|---|---|---|---|']
    rest = []
    for result in results:
        if 'not_run' in result:
            lines.append(f'| {result["row"]} | not run: {result["not_run"]} | | | | | |')
        elif 'error' in result:
            lines.append(f'| {result["row"]} | failed: {result["error"].strip().splitlines()[-1]} | | | | | |')
        elif 'step_s' in result and 'tokens_per_s_per_gpu' in result:
            step, guess = result['step_s'] * 1e3, result.get('predicted_step_s')
            lines.append(f'| {result["row"]} | {result["tokens_per_s_per_gpu"]:,.0f} | {step:,.1f} | {cell(guess and guess * 1e3)} | '
                         f'{cell(guess and step / guess / 1e3, "{:.2f}")} | {cell(result.get("peak_gib"))} | '
                         f'{cell(result.get("predicted_peak_gib"))} |')
        elif 'most_apart' in result:
            equal = 'bit-equal' if result['bit_equal'] else f'at most {result["most_apart"]:.1g} apart (sums of another order)'
            again = '; resumed twice: bit-equal' if result.get('again_bit_equal') else ''
            rest.append(f'- {result["row"]}: {result["gb"]} GB, losses and gradient norms of {result["compared_steps"]} steps '
                        f'{equal}{again}; waited {result["stall_s"]} s, wrote {result["write_gb_per_s"]} GB/s, '
                        f'first step {result["resume_s"]} s after the start')
        elif 'rounds' in result:
            rest += [f'- {result["row"]}: 0 committed steps lost, steps as in peace', *('  - ' + line for line in result['rounds'])]
        else:
            rest += ['', f'{result["row"]}:', '', '```', result['table'], '```']
    return '\n'.join([*lines, '', *rest])


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('gpus', type=int, choices=(2, 4, 8))
    parser.add_argument('--cpu', action='store_true', help='small sizes on CPU ranks')
    groups = ('plan', 'preflight', 'checkpoint', 'kill', 'llama', 'bloom', 'full', 'tp', 'mixtral', 'pp', 'cp')
    parser.add_argument('--only', default=','.join(groups), help=f'of {",".join(groups)}')
    parser.add_argument('--gpu', default=GPU, help=f'what plan plans for (default {GPU})')
    parser.add_argument('--steps', type=int, default=8, help='measured steps (default 8)')
    parser.add_argument('--warmup', type=int, default=4, help='steps before them (default 4)')
    parser.add_argument('--layers', type=int, help="of the checkpoint's Llama (default: all, 48 GB; its disk must hold them)")
    parser.add_argument('--seconds', type=float, default=3600, help='nothing begins later (default 3600)')
    parser.add_argument('--timeout', type=float, default=150, help='seconds a row may take: one that hangs leaves time for the others (default 150)')
    parser.add_argument('--capstan', type=pathlib.Path)
    parser.add_argument('--peer', type=pathlib.Path, help='script of the FSDP2 row')
    parser.add_argument('--python', default=sys.executable, help='the Python that runs it')
    parser.add_argument('--scratch', help='folder for runs (default: temporary)')
    parser.add_argument('--record', type=pathlib.Path, help='also write all results, with hardware and date')
    parser.add_argument('--output', type=pathlib.Path, help='the Markdown (default: standard output)')
    arguments = parser.parse_args(words)
    arguments.capstan = arguments.capstan or ROOT / 'build' / ('cpu' if arguments.cpu else 'cuda') / 'bin/capstan'
    arguments.only = arguments.only.split(',')
    if unknown := set(arguments.only) - set(groups):
        parser.error(f'--only {",".join(sorted(unknown))}: one of {", ".join(groups)}')
    return arguments


def main(words):
    end_on_sigterm()
    arguments = parse(words)
    session = Session(arguments)
    with tempfile.TemporaryDirectory(prefix='capstan-eight-', dir=arguments.scratch) as folder:
        for group, name, case in rows(arguments.gpus):
            if group in arguments.only:
                session.model(group, name, case)
        for group, call in (('checkpoint', session.checkpoints), ('kill', session.kills),
                            ('preflight', lambda: session.preflight(pathlib.Path(folder))), ('plan', lambda: session.plan(pathlib.Path(folder)))):
            if group in arguments.only:
                call()
    text = markdown(session.results) + '\n'
    if arguments.output:
        arguments.output.write_text(text, encoding='utf-8')
    else:
        print(text, end='')
    return 1 if session.failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
