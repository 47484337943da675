"""How runs start: what srun, the headers of users' scripts and what they export come to."""
import itertools
import json
import os
import re
import socket

import cluster
from bench import check, check_words

QUICK = ('train.max_steps=2', 'run.save_weights=false')


def ranks_of(bench, run='small'):
    summary = json.loads((bench.folder / f'runs/{run}/summary.json').read_text())
    return summary['world_size']


ports = itertools.count(12000 + os.getpid() % 4000)


def free_port():
    """Another one each time, below those that the kernel gives to everybody who asks for any."""
    for port in itertools.islice(ports, 5000):
        try:
            with socket.socket() as one:
                one.bind(('127.0.0.1', port))
                return port
        except OSError:
            continue
    raise RuntimeError('no free port')


def four_tasks(bench):
    """srun -n4 and nothing else: one table at start, one folder."""
    done = bench.capstan(('-n4',), '--verbose', bench.config(), *QUICK)
    check_words(done.stdout, 'connected 4/4: 4 ranks on 1 node by srun, backend gloo', 'global_step: 1 ')
    check(done.stdout.count('run folder: ') == 1, done.stdout)


def two_nodes(bench):
    """2 nodes x 2; nodes by their SLURM names, a log of each rank."""
    done = bench.capstan(('--nodes=2', '--ntasks-per-node=2'), bench.config(), *QUICK)
    check_words(done.stdout, 'connected 4/4: 4 ranks on 2 nodes by srun')
    logs = sorted(file.name for file in (bench.folder / 'runs/small/logs').iterdir())
    check(logs == [f'rank-{rank}.log' for rank in range(4)], f'{logs}')


def uneven_tasks(bench):
    """Three tasks on two nodes are refused with the line to change."""
    done = bench.capstan(('--nodes=2', '--ntasks=3'), bench.config(), *QUICK, status=None)
    check(done.returncode != 0, done.stdout)
    check_words(done.stderr.replace('1 + 2', '2 + 1'),   # SLURM chooses which
                'srun started 2 + 1 = 3 tasks on 2 nodes: each node must have the same number of ranks',
                '#SBATCH --ntasks-per-node=2 instead of --ntasks=3')
    check(not (bench.folder / 'runs/small').exists(), 'a refused run made a folder')


# What the workshop's scripts have above them, with as many GPUs as the nodes here have; their ranks run on CPUs.
HEADERS = {
    'nemo': (('--nodes=1', '--ntasks-per-node=2', '--gpus-per-node=2', '--cpus-per-task=4', '--time=01:00:00', '--mem=256'), 2),
    'tasks_alone': (('--ntasks=2',), 2),
    'gpus_per_task': (('--ntasks-per-node=2', '--gpus-per-task=1'), 2),
    'idle_gpus': (('--gpus=4', '--gpus-per-node=4', '--ntasks=2', '--tasks-per-node=2'), 2),
    'one_gpu_a_node': (('--nodes=2', '--gpus=2', '--gpus-per-node=1', '--ntasks=2', '--tasks-per-node=1'), 2),
    'one_task_for_four': (('--nodes=2', '--gpus=8', '--gpus-per-node=4', '--ntasks=2', '--tasks-per-node=1'), 2),
    'deepspeed_nodes': (('--nodes=2', '--ntasks=2', '--ntasks-per-node=1', '--cpus-per-task=4', '--gpus=4', '--gpus-per-node=2'), 2),
}


def headers(bench):
    """Every header of the workshop starts as many ranks as it has tasks."""
    file, jobs = bench.config(), {}
    for name, (options, _) in HEADERS.items():
        lines = ''.join(f'#SBATCH {option}\n' for option in options)
        jobs[name] = bench.batch((f'--job-name={name}', f'--output={name}.out'), f'{lines}export CUDA_VISIBLE_DEVICES=0,1\n'
                                 f'srun {bench.program} run {file} run.name={name} {" ".join(QUICK)}\n')
    for name, (_, ranks) in HEADERS.items():
        check(bench.wait_for_end(jobs[name]) == 'COMPLETED', f'{name}:\n{bench.output(f"{name}.out")}')
        check(ranks_of(bench, name) == ranks, f'{name}: {ranks_of(bench, name)} ranks')


def spawned(bench):
    """One task on each node starts the rest."""
    bench.capstan(('--nodes=2', '--ntasks-per-node=1', '--cpus-per-task=2'), '--spawn-local', '-n', '2', bench.config(), *QUICK)
    check(ranks_of(bench) == 4, f'{ranks_of(bench)} ranks')


def spawned_rank_dies(bench):
    """A rank that a task of srun's has started is killed: ranks of other nodes hear who it was and of what, not that it is silent."""
    file = bench.config('[monitor.probe]\npath = "%s"\npause_s = 0.1\n' % (bench.build / 'tests/run_fixtures/monitor/probe.so'))
    job = bench.batch(('--nodes=2', '--ntasks-per-node=1', '--cpus-per-task=2', '--no-requeue'),
                      f'srun --kill-on-bad-exit=0 {bench.program} run {file} --spawn-local -n 2 train.max_steps=100000\necho code $?\n')
    bench.wait_for_text('global_step: 7 ')
    marks = ('CAPSTAN_LOCAL_RANK=1\0', 'SLURM_NODEID=1\0', f'SLURM_JOB_ID={job}\0')
    victims = [process for process in cluster.processes() if bench.slurm.owns(process) and
               all(mark in cluster.read(process / 'environ') for mark in marks)]
    check(len(victims) == 1, f'{victims}')
    cluster.kill(victims[0])
    bench.wait_for_text('code ')
    output = bench.output()
    check_words(output, 'rank 3 was killed by signal 9 (SIGKILL)')
    check(re.search(r'rank 3 on n\d failed: it was killed by signal 9 \(SIGKILL\)', output), output)
    check('has not been heard of' not in output and 'code 0' not in output, output)


def without_srun(bench):
    """A batch script that forgets srun runs one rank, and is told so."""
    job = bench.batch(('-n4',), f'{bench.program} run {bench.config()} {" ".join(QUICK)}\n')
    check(bench.wait_for_end(job) == 'COMPLETED', bench.output())
    check_words(bench.output(), f'running as a single rank inside SLURM job {job}', 'write srun before the command')
    check(ranks_of(bench) == 1, 'not one rank')


def stale_variables(bench):
    """What users' scripts export for torchrun is ignored under srun, with a warning."""
    done = bench.capstan(('-n2',), bench.config(), *QUICK, env={'RANK': 0, 'WORLD_SIZE': 1, 'LOCAL_RANK': 0})
    check_words(done.stderr, 'RANK, WORLD_SIZE, LOCAL_RANK are set but srun started this program: ignored')
    check(ranks_of(bench) == 2, 'the exported WORLD_SIZE counted')


def torchrun_inside(bench):
    """srun torchrun: torchrun's variables count, which it sets for each process."""
    variables = ('RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 GROUP_RANK=0 '
                 f'TORCHELASTIC_RUN_ID=x MASTER_ADDR=127.0.0.1 MASTER_PORT={free_port()}')
    done = bench.srun('-n2', 'sh', '-c', f'{variables} exec {bench.program} run --verbose {bench.config()} {" ".join(QUICK)}')
    check(done.returncode == 0, done.stderr)
    check_words(done.stdout, 'connected 2/2: 2 ranks on 1 node by torchrun')


def own_port(bench):
    """MASTER_ADDR and MASTER_PORT are used; one that is taken is an error that names it."""
    done = bench.capstan(('-n2',), '--verbose', bench.config(), *QUICK, env={'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': free_port()})
    check_words(done.stdout, 'connected 2/2')
    with socket.socket() as other:
        other.bind(('127.0.0.1', 0))
        other.listen()
        port = other.getsockname()[1]
        job = bench.batch(('-n2',), f'export MASTER_ADDR=127.0.0.1 MASTER_PORT={port}\nsrun {bench.program} run {bench.config()}\n')
        bench.wait_for_text(f"port {port} for the ranks' rendezvous is already taken on 127.0.0.1")
        bench.wait_for_text('set MASTER_PORT to a free port')
        bench.slurm.run('scancel', job)


def late_rank(bench):
    """Who is missing is named while the others wait."""
    job = bench.batch(('--nodes=2', '--ntasks-per-node=1'), f'srun sh -c "[ \\$SLURM_PROCID = 0 ] || sleep 12; exec {bench.program} run {bench.config()} '
                      f'{" ".join(QUICK)}"\n')
    check(bench.wait_for_end(job) == 'COMPLETED', bench.output())
    check_words(bench.output(), 'connected 1/2', 'rank 1 on n', 'connected 2/2')


CASES = (headers, late_rank, four_tasks, two_nodes, uneven_tasks, spawned, spawned_rank_dies, without_srun, stale_variables, torchrun_inside, own_port)
