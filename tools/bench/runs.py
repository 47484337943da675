"""What the benchmarks share: runs of the real program and of peers' scripts, and what they measured."""
import datetime
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys

GIB = 2**30


def toml(value):
    return json.dumps(value)  # booleans, numbers and plain strings are written alike


def table(name, options):
    return f'[{name}]\n' + ''.join(f'{key} = {toml(value)}\n' for key, value in options.items()) + '\n'


def threads(gpus):
    return str(max(1, (os.cpu_count() or 1) // gpus))


def run(command, log, timeout, gpus):
    """Runs a command in a process group of its own, its output in `log`; returns what is wrong with it, or None."""
    settings = dict(os.environ, OMP_NUM_THREADS=os.environ.get('OMP_NUM_THREADS', threads(gpus)))
    with open(log, 'w', encoding='utf-8') as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True, env=settings)
        try:
            code = process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if code == 0:
        return None
    tail = log.read_text(encoding='utf-8', errors='replace').strip().splitlines()[-12:]
    return '\n'.join([f'no end after {timeout} s' if code is None else f'exit code {code}', *tail])


def read_run(folder, warmup, gpus, on_gpu):
    """The numbers of one of our runs, from its metrics.jsonl and summary.json."""
    lines = (folder / 'metrics.jsonl').read_text(encoding='utf-8').splitlines()
    steps = [line for line in map(json.loads, lines) if 'step_time_s' in line]
    summary = json.loads((folder / 'summary.json').read_text(encoding='utf-8'))
    measured = steps[warmup:]
    step_s = statistics.median(step['step_time_s'] for step in measured)
    memory = summary['peak_memory_bytes']

    def largest(key):
        return round(max(rank[key] for rank in memory) / GIB, 2)
    return {'step_s': round(step_s, 5),
            'tokens_per_s_per_gpu': round(measured[-1]['padded_tokens'] / step_s / gpus, 1),
            'peak_gib': largest('device') if on_gpu else None,
            'setup_gib': largest('device_setup') if on_gpu else None,
            'host_gib': largest('host'),
            'parameters': summary['parameters'],
            **({'host_update': summary['host_update']} if 'host_update' in summary else {}),
            'last_loss': round(steps[-1]['loss'], 4)}


def predicted(log):
    """What a run printed of its prediction, in its table of predicted against actual."""
    text = log.read_text(encoding='utf-8', errors='replace')
    units = {'ms': 1e-3, 'GiB': 1, 'MiB': 2**-10, 'KiB': 2**-20}
    found = {}
    for key, row in (('predicted_step_s', 'mean step, without the longest'), ('predicted_peak_gib', "peak of the GPU's tensors")):
        cell = re.search(rf'^{re.escape(row)} +([\d.,]+) (ms|GiB|MiB|KiB) ', text, re.MULTILINE)
        if cell:
            found[key] = round(float(cell[1].replace(',', '')) * units[cell[2]], 5)
    return found


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ''


def hardware():
    """What this machine is: GPUs and driver, processor, memory."""
    gpus = output_of('nvidia-smi', '--query-gpu=name,memory.total,driver_version', '--format=csv,noheader').splitlines()
    with open('/proc/cpuinfo', encoding='utf-8') as info:
        processor = next((line.split(':', 1)[1].strip() for line in info if line.startswith('model name')), '')
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    return {'gpus': gpus, 'processor': processor or platform.machine(), 'cores': os.cpu_count(),
            'memory_gib': round(memory / GIB, 1)}


def circumstances(arguments):
    """What a record of any measurement starts with."""
    return {'date': datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%d'),
            'capstan': output_of(str(arguments.capstan), '--version'), 'hardware': hardware()}


def end_on_sigterm():
    """Leaves by an exception, so that a running case is ended too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def measure_all(arguments, measure, record):
    """Prints measure(case, arguments) of each case, and keeps record(arguments, results) after each, whatever comes next."""
    results = []
    for case in arguments.cases:
        results.append(measure(case, arguments))
        print(json.dumps(results[-1]), flush=True)
        if arguments.record:
            arguments.record.write_text(json.dumps(record(arguments, results), indent=2) + '\n', encoding='utf-8')
    return results
