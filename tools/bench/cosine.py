#!/usr/bin/env python3
"""tools/bench/cosine.py TRAIN.json: how near gradients of products in 8 bits are to those in 16, layer by layer.

Trains a small Llama of bytes on SQuAD's text in 16 bits, or takes --model, a model's folder. From its weights one step on
the same samples follows without strategy.fp8 and with each recipe. AdamW's first moment after one step is the gradient
times a number, and a checkpoint has it: the cosine of the two is taken record by record. Prints a table in Markdown: for
each kind of matrix the mean over the blocks and the smallest, then each block's, all its matrices together.

  cosine.py squad/train-v1.1.json                                   # rowwise, tensorwise, blockwise
  cosine.py train.json --recipe blockwise --recipe rowwise,backward=e5m2 --record cosines.json
  cosine.py train.json --device cpu --precision fp32 --steps 4 --layers 2 --hidden 256 --seq 384 --micro-batch 2
"""
import argparse
import json
import pathlib
import re
import struct
import sys
import tempfile

import numpy

from runs import circumstances, end_on_sigterm, run, table

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MOMENT = 'optimizer/exp_avg/'
WIDTHS = {'F32': numpy.float32, 'F64': numpy.float64}


def configuration(arguments, folder):
    text = table('run', {'dir': str(folder), 'seed': 1, 'device': arguments.device, 'host_memory': 1000})
    heads = max(1, arguments.hidden // 64)
    text += table('model', {'plugin': 'llama', 'vocab_size': 258, 'hidden_size': arguments.hidden,
                            'num_layers': arguments.layers, 'num_heads': heads, 'num_kv_heads': max(1, heads // 2),
                            'ff_dim': arguments.hidden * 11 // 4 // 128 * 128, 'seq_length': arguments.seq})
    text += table('data', {'plugin': 'squad', 'tokenizer': 'byte', 'train': str(arguments.train),
                           'max_length': arguments.seq, 'loss': 'sequence'})
    text += table('train', {'micro_batch': arguments.micro_batch, 'precision': arguments.precision})
    return text + table('optimizer', {'lr': 6e-4, 'warmup_steps': 50, 'schedule': 'constant', 'weight_decay': 0.1})


def start(arguments, config, name, options):
    command = [str(arguments.capstan), 'run', str(config), f'run.name={name}', *options]
    error = run(command, config.parent / f'{name}.log', arguments.timeout, 1)
    if error:
        sys.exit(f'{name}: {error}')


def moments(folder):
    """By record: the first moments of a checkpoint that one rank wrote."""
    found = {}
    for path in sorted(folder.glob('*.safetensors')):
        data = path.read_bytes()
        size = struct.unpack('<Q', data[:8])[0]
        for name, tensor in json.loads(data[8:8 + size]).items():
            if not name.startswith(MOMENT):
                continue
            begin, end = (8 + size + offset for offset in tensor['data_offsets'])
            found[name[len(MOMENT):]] = numpy.frombuffer(data[begin:end], WIDTHS[tensor['dtype']]).astype(numpy.float64)
    return found


def cosine(pairs):
    a, b = (numpy.concatenate(each) for each in zip(*pairs))
    return float(a @ b / max(numpy.linalg.norm(a) * numpy.linalg.norm(b), 1e-300))


def cosines(plain, other):
    """By block and by kind of matrix, and of each block and all of the model."""
    blocks, result = {}, {}
    for name, gradient in plain.items():
        match = re.search(r'layers\.(\d+)\.(.*)\.weight', name)
        if match and 'norm' not in match[2]:
            blocks.setdefault(int(match[1]), []).append((gradient, other[name]))
            result[f'{match[1]}/{match[2]}'] = cosine([(gradient, other[name])])
    result.update({str(block): cosine(pairs) for block, pairs in blocks.items()})
    result['all'] = cosine([(gradient, other[name]) for name, gradient in plain.items()])
    return result


def markdown(found):
    recipes = list(found)
    names = list(found[recipes[0]])
    kinds = sorted({name.split('/')[1] for name in names if '/' in name})
    lines = ['| | ' + ' | '.join(recipes) + ' |', '|---' * (len(recipes) + 1) + '|']
    for kind in kinds:
        cells = []
        for recipe in recipes:
            values = [value for name, value in found[recipe].items() if name.endswith('/' + kind)]
            cells.append(f'{sum(values) / len(values):.4f}, {min(values):.4f}')
        lines.append(f'| {kind}: mean, smallest | ' + ' | '.join(cells) + ' |')
    for name in sorted((name for name in names if name.isdigit()), key=int) + ['all']:
        of = f'block {name}' if name.isdigit() else 'all parameters'
        lines.append(f'| {of} | ' + ' | '.join(f'{found[recipe][name]:.4f}' for recipe in recipes) + ' |')
    lines.append('| operands that became zero | ' + ' | '.join(f'{found[each]["underflow"]:.4%}' for each in recipes) + ' |')
    return '\n'.join(lines)


def underflow(folder):
    """The share of operands' numbers that became zero."""
    lines = (folder / 'metrics.jsonl').read_text(encoding='utf-8').splitlines()
    return next(step['fp8_underflow'] for step in map(json.loads, lines) if 'fp8_underflow' in step)


def measure(arguments, folder):
    config = folder / 'cosine.toml'
    config.write_text(configuration(arguments, folder), encoding='utf-8')
    model = arguments.model
    if model is None:
        start(arguments, config, 'trained', [f'train.max_steps={arguments.steps}'])
        last = (folder / 'trained' / 'metrics.jsonl').read_text(encoding='utf-8').splitlines()[-1]
        print(f'trained {arguments.steps} steps: {last[:300]}', flush=True)
        model = folder / 'trained' / 'model'
    step = [f'model.path={model}', 'train.max_steps=1', 'run.seed=2', 'run.save_weights=false', 'optimizer.lr=1e-6',
            'optimizer.warmup_steps=0', 'checkpoint.every_steps=1']
    gradients, found = {}, {}
    for recipe in ['', *arguments.recipe]:
        words = recipe.split(',')
        options = [f'strategy.fp8.recipe={words[0]}', *(f'strategy.fp8.{word}' for word in words[1:])] if recipe else []
        name = re.sub(r'\W', '-', recipe) or 'plain'
        start(arguments, config, name, step + options)
        gradients[recipe] = moments(folder / name / 'checkpoints' / 'step-00000001')
    for recipe in arguments.recipe:
        found[recipe] = cosines(gradients[''], gradients[recipe])
        found[recipe]['underflow'] = underflow(folder / re.sub(r'\W', '-', recipe))
    return found


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('train', type=pathlib.Path, help="SQuAD's JSON")
    parser.add_argument('--recipe', action='append', metavar='RECIPE[,OPTION=VALUE…]', help='of strategy.fp8')
    parser.add_argument('--model', type=pathlib.Path, help="a Llama's folder; its tokenizer is not used")
    parser.add_argument('--steps', type=int, default=300, help='that the small model is trained for (default 300)')
    parser.add_argument('--layers', type=int, default=12)
    parser.add_argument('--hidden', type=int, default=1024)
    parser.add_argument('--seq', type=int, default=768)
    parser.add_argument('--micro-batch', type=int, default=32)
    parser.add_argument('--device', choices=('cuda', 'cpu'), default='cuda')
    parser.add_argument('--precision', default='bf16')
    parser.add_argument('--capstan', type=pathlib.Path, default=ROOT / 'build' / 'cuda' / 'bin' / 'capstan')
    parser.add_argument('--timeout', type=float, default=300, help='seconds a run may take (default 300)')
    parser.add_argument('--scratch', help='folder for runs (default: temporary)')
    parser.add_argument('--record', type=pathlib.Path, help='also write all cosines, with hardware and date')
    arguments = parser.parse_args(words)
    arguments.recipe = arguments.recipe or ['rowwise', 'tensorwise', 'blockwise']
    arguments.train = arguments.train.resolve()
    return arguments


def main(words):
    end_on_sigterm()
    arguments = parse(words)
    with tempfile.TemporaryDirectory(prefix='capstan-cosine-', dir=arguments.scratch) as folder:
        found = measure(arguments, pathlib.Path(folder))
    print(markdown(found))
    if arguments.record:
        arguments.record.write_text(json.dumps({**circumstances(arguments), 'cosines': found}, indent=1) + '\n', encoding='utf-8')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
