"""How runs end early, and continue: by a signal, by preemption, by the time limit, by a node that dies."""
import concurrent.futures
import threading

import scripts
from bench import check, check_words

STEPS = 40
FOUR = ('--nodes=2', '--ntasks-per-node=2')
lock = threading.Lock()
straight = {}   # the uninterrupted run that all are compared with


def uninterrupted(bench):
    """The steps and evaluations of the same run, never stopped; made once."""
    with lock:
        if not straight:
            own = bench.case('straight')
            own.capstan(FOUR, own.config(), f'train.max_steps={STEPS}')
            straight['steps'], straight['evaluations'] = own.metrics()
    return straight


def numbers(lines, *keys):
    return [[line[key] for key in keys] for line in lines]


def check_as_uninterrupted(bench, run='small'):
    """Step by step the same bits: the run continued where it was, and did nothing twice."""
    want = uninterrupted(bench)
    steps, evaluations = bench.metrics(run)
    keys = ('step', 'loss', 'grad_norm', 'lr', 'samples')
    check(numbers(steps, *keys) == numbers(want['steps'], *keys), f'other steps than uninterrupted:\n{steps}\n{want["steps"]}')
    losses = [line for line in evaluations if 'samples' in line and 'loss' in line]
    check(len(losses) == 1 and losses[0]['loss'] == want['evaluations'][0]['loss'], f'other evaluations: {evaluations}')


def begin(bench, *options):
    """A batch job in the middle of a run of four ranks on two nodes, which waits there."""
    job = bench.batch((*FOUR, '--requeue', *options), f'srun {bench.program} run {bench.held()} train.max_steps={STEPS}\n')
    bench.wait_for_text('global_step: 7 ')
    return job


def requeue_by_signal(bench):
    """USR1 to the step: all ranks end with 85, SLURM queues the job again, and it continues in its own folder."""
    uninterrupted(bench)
    job = begin(bench)
    bench.slurm.run('scancel', '--signal=USR1', f'{job}.0')
    bench.go_on()
    state = bench.wait_for_end(job)
    output = bench.output()
    check(state == 'COMPLETED', f'{state}\n{output}')
    check_words(output, 'capstan: stopped by SIGUSR1 after step ', 'exit code 85 asks to be queued again', 'resuming from ', 'after step ')
    check(bench.job(job)['Restarts'] == '1', output)
    check(not (bench.folder / 'runs/small-2').exists(), 'the job that continued made a second folder')
    check_as_uninterrupted(bench)


def two_commands(bench):
    """A script of two runs, stopped in its second: the first has ended and stays as it is, the second continues."""
    want = uninterrupted(bench)
    (bench.folder / 'gone-on').touch()
    run = f'srun {bench.program} run {bench.held()} train.max_steps={STEPS}'
    job = bench.batch((*FOUR, '--requeue'), f'{run} monitor.probe.until={bench.folder / "gone-on"} || exit $?\n{run} optimizer.lr=2e-2\n')
    bench.wait_until(lambda: 'global_step: 7 ' in bench.output().partition('run folder: runs/small-2')[2], 'the second run is at work')
    bench.slurm.run('scancel', '--signal=USR1', f'{job}.1')
    bench.go_on()
    state = bench.wait_for_end(job)
    output = bench.output()
    check(state == 'COMPLETED', f'{state}\n{output}')
    check_words(output, f'runs/small/checkpoints/step-{STEPS:08}, after step {STEPS} of {STEPS}', 'resuming from runs/small-2/checkpoints/step-')
    check(not (bench.folder / 'runs/small-3').exists(), 'a run that continued made a folder of its own')
    check_as_uninterrupted(bench)
    second, _ = bench.metrics('small-2')
    check([line['step'] for line in second] == list(range(STEPS)), f'other steps: {second}')
    doubled = all(abs(line['lr'] - 2 * one['lr']) <= 1e-12 for line, one in zip(second, want['steps']))
    check(doubled, f'the runs were mixed: {second}')


def second_signal(bench):
    """A second signal, well after the first: nothing new is saved, and all end with the same code."""
    file = bench.held()
    long = bench.srun('-n2', bench.program, 'run', file, 'monitor.probe.rank=1', 'monitor.probe.step=3', 'monitor.probe.how=long',
                      'monitor.probe.pause_s=0', 'train.max_steps=4', 'checkpoint.every_steps=1000')
    check(long.returncode == 0, long.stderr)   # without signals it ends well: with a checkpoint and weights
    check((bench.folder / 'runs/small/checkpoints/step-00000004').exists(), long.stdout)

    script = (f'srun {bench.program} run {file} run.name=twice monitor.probe.rank=1 monitor.probe.step=3 monitor.probe.how=long '
              f'monitor.probe.pause_s=0 train.max_steps=1000 checkpoint.every_steps=1000\necho code $?\n')
    job = bench.batch(('-n2', '--no-requeue'), script)
    bench.wait_for_text('global_step: 3 ')
    bench.slurm.run('scancel', '--signal=TERM', f'{job}.0')
    bench.slurm.run('sleep', '3.3')
    bench.slurm.run('scancel', '--signal=USR2', f'{job}.0')
    bench.wait_for_text('code ')
    check_words(bench.output(), 'code 85', 'capstan: stopped by SIGTERM after step ')
    left = list((bench.folder / 'runs/twice').glob('checkpoints/step-*'))
    check(not left, f'saved although two signals had come: {left}')


def cancelled(bench):
    """scancel is no preemption: the run saves what it can, and the job is not queued again."""
    job = begin(bench)
    bench.slurm.run('scancel', job)
    bench.go_on()
    state = bench.wait_for_end(job)
    check(state == 'CANCELLED', state)
    check_words(bench.output(), 'capstan: stopped by SIGTERM after step ')
    check(bench.job(job)['Restarts'] == '0', 'a cancelled job was started again')


def time_limit(bench):
    """One minute: the run asks squeue what is left, saves in time, and ends with 85 before SLURM ends it."""
    bench.go_on()
    job = bench.batch((*FOUR, '--time=1', '--no-requeue'), f'srun {bench.program} run {bench.held()} train.max_steps=100000\necho code $?\n')
    bench.wait_for_text('code ')
    output = bench.output()
    check_words(output, "capstan: stopped since the job's time is nearly over after step ", 'code 85')
    check('DUE TO TIME LIMIT' not in output, output)
    steps, _ = bench.metrics()
    check((bench.folder / f'runs/small/checkpoints/step-{steps[-1]["step"] + 1:08}').exists(), 'the last step was not saved')
    bench.wait_for_end(job)


def preemption(bench):
    """A job of a higher partition takes the nodes: the run saves within the grace time, and continues when they are free."""
    uninterrupted(bench)
    job = begin(bench, '--exclusive', '--nodelist=n1,n2')
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        taken = pool.submit(bench.slurm.run, 'srun', '--partition=high', '--exclusive', '--nodelist=n1,n2', '--nodes=2', 'sleep', '1')
        bench.wait_until(lambda: bench.job(job).get('PreemptTime', 'None') != 'None', 'the job is preempted')
        bench.go_on()
        check(taken.result().returncode == 0, taken.result().stderr)
    state = bench.wait_for_end(job)
    output = bench.output()
    check(state == 'COMPLETED', f'{state}\n{output}')
    check_words(output, 'capstan: stopped by SIGTERM after step ', 'resuming from ')
    check_as_uninterrupted(bench)


def node_killed(bench):
    """A node is gone with all that ran on it: the others say who, the job script waits for SLURM, and the run continues."""
    uninterrupted(bench)
    folder = scripts.tree(bench)
    bench.runs = 'tree/runs'
    bench.held()
    job = scripts.submitted_job(bench, folder, '--nodes=2', '--ntasks-per-node=2', '--nodelist=n3,n4', 'small.toml', f'train.max_steps={STEPS}')
    log = f'tree/logs/small-2x2-{job}.out'
    bench.wait_for_text('global_step: 7 ', log)
    bench.slurm.kill_node('n4')
    bench.go_on()
    try:
        bench.wait_until(lambda: bench.job(job).get('Restarts') == '1', 'the job is queued again')
        bench.slurm.run('scontrol', 'update', f'JobId={job}', 'ReqNodeList=')
        state = bench.wait_for_end(job)
    finally:
        bench.slurm.launch_node('n4')
        bench.slurm.wait_for_nodes()
    check(state == 'COMPLETED', f'{state}\n{bench.output(log)}')
    check_words(bench.output(log), ' on n4 failed: it has not been heard of', 'a node of this job does not answer', 'resuming from ')
    check_as_uninterrupted(bench, f'small-2x2-{job}')


CASES = (requeue_by_signal, two_commands, second_signal, cancelled, time_limit, preemption, node_killed)
ALONE = (preemption, node_killed)
