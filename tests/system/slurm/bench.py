"""What the cases share: a small configuration, jobs and steps, and what they left."""
import json
import math
import pathlib
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
FIXTURES = 'tests/run_fixtures'

CONFIG = '''
[run]
name = "small"
seed = 3
device = "cpu"
deterministic = true
[model]
plugin = "gpt"
vocab_size = 261
hidden_size = 12
num_layers = 2
num_heads = 3
ff_dim = 22
seq_length = 130
[data]
plugin = "squad"
train = "{root}/configs/data/mini_squad_train.json"
eval = "{root}/configs/data/mini_squad_eval.json"
train_samples = 70
eval_samples = 7
max_length = 97
[train]
max_steps = 8
micro_batch = 4
accumulation = 1
eval_every = 1000000
[optimizer]
lr = 1e-2
[comm]
silence_s = 30
[monitor.console]
style = "nemo"
[strategy.fsdp]
mode = "full_shard"
{more}
'''

# A run that a test meets at work, however slow the machine: it waits after step 8 until the test lets it continue, and then
# takes a tenth of a second a step, so that what the test has done meanwhile reaches it. It saves often: little is lost.
HELD = '''
[monitor.probe]
path = "{probe}"
pause_s = 0.1
rank = 0
step = 8
how = "wait"
until = "{until}"
[checkpoint]
every_steps = 5
'''


class Failed(Exception):
    pass


def check(fact, text):
    if not fact:
        raise Failed(text)


def check_words(text, *words):
    for word in words:
        check(word in text, f'"{word}" is not in:\n{text}')


class Bench:
    """A SLURM and a build; `folder` takes what a case leaves."""

    def __init__(self, slurm, build, folder, root=None):
        self.slurm, self.build, self.folder = slurm, build, folder
        self.top = root or folder
        self.runs = 'runs'
        self.program = build / 'bin/capstan'
        check(self.program.exists(), f'{self.program} is not built')

    def case(self, name):
        folder = self.top / name
        folder.mkdir()
        return Bench(self.slurm, self.build, folder, self.top)

    def config(self, more='', name='small.toml'):
        file = self.folder / name
        file.write_text(CONFIG.format(root=ROOT, more=more))
        return file

    def held(self):
        """A configuration whose run waits after step 8 for go_on()."""
        return self.config(HELD.format(probe=self.build / 'tests/run_fixtures/monitor/probe.so', until=self.folder / 'go-on'))

    def go_on(self):
        (self.folder / 'go-on').touch()

    def variables(self, **more):
        return {'OMP_NUM_THREADS': '1', **{key: str(value) for key, value in more.items()}}

    def srun(self, *words, env=None, limit_s=300):
        """`srun WORDS` in this case's folder, to its end."""
        return self.slurm.run('srun', *words, env=self.variables(**(env or {})), cwd=self.folder, limit_s=limit_s)

    def capstan(self, options, *words, env=None, status=0):
        """`srun OPTIONS capstan run WORDS`."""
        done = self.srun(*options, self.program, 'run', *words, env=env)
        check(status is None or done.returncode == status, f'{options}: exit code {done.returncode}, not {status}\n{done.stdout}\n{done.stderr}')
        return done

    def batch(self, options, script, env=None):
        """Submits a job whose output goes to job.out here; returns its number."""
        file = self.folder / 'job.sh'
        file.write_text('#!/bin/bash\n' + script)
        done = self.slurm.run('sbatch', '--parsable', '--output=job.out', '--open-mode=append', *options, file,
                              env=self.variables(**(env or {})), cwd=self.folder)
        check(done.returncode == 0, done.stderr)
        return done.stdout.strip()

    def output(self, name='job.out'):
        file = self.folder / name
        return file.read_text(errors='replace') if file.exists() else ''

    def job(self, number):
        """What scontrol says of a job, as a dictionary."""
        words = self.slurm.run('scontrol', 'show', 'job', '--oneliner', number).stdout.split()
        return dict(word.split('=', 1) for word in words if '=' in word)

    def wait_until(self, fact, what, limit_s=240):
        deadline = time.monotonic() + limit_s
        while not fact():
            check(time.monotonic() < deadline, f'{what}: not within {limit_s} s; output:\n{self.output()}')
            time.sleep(0.1)

    def wait_for_text(self, text, name='job.out', limit_s=240):
        self.wait_until(lambda: text in self.output(name), f'"{text}" in {name}', limit_s)

    def wait_for_end(self, number, limit_s=300):
        """Waits until a job is over for good; returns its state."""
        over = ('COMPLETED', 'FAILED', 'CANCELLED', 'TIMEOUT', 'NODE_FAIL')
        seen, hastened = [], -math.inf

        def ended():
            nonlocal hastened
            job = self.job(number)
            seen.append((job.get('JobState'), job.get('Restarts')))
            if job.get('JobState') == 'COMPLETED' and job.get('ExitCode') == '0:0':   # nothing queues that again
                return True
            if [state for state, _ in seen[-5:]] == ['PENDING'] * 5 and len(set(seen[-5:])) == 1 and time.monotonic() > hastened + 5:
                # SLURM would hold it for two minutes, so that its new credential is younger than the old one's end. That is compared
                # in whole seconds: with `now` the node can take the new start for the old one, which it does not run.
                self.slurm.run('scontrol', 'update', f'JobId={number}', 'StartTime=now+2')
                hastened = time.monotonic()
                seen.clear()
            steady = len(seen) > 20 and len(set(seen[-20:])) == 1   # states pass by while a job goes back into the queue
            return steady and job.get('JobState') in over

        self.wait_until(ended, f'job {number} ends', limit_s)
        return self.job(number)['JobState']

    def metrics(self, run='small'):
        """The steps that a run wrote, in order; and what it evaluated."""
        lines = [json.loads(line) for line in (self.folder / self.runs / run / 'metrics.jsonl').read_text().splitlines()]
        return [line for line in lines if 'loss' in line and 'lr' in line], [line for line in lines if 'lr' not in line]
