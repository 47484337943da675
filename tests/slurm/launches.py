"""How runs start: what srun, the headers of users' scripts and what they export come to."""
from bench import check, check_words

QUICK = ('train.max_steps=2', 'run.save_weights=false')


def four_tasks(bench):
    """srun -n4 and nothing else."""
    done = bench.capstan(('-n4',), bench.config(), *QUICK)
    check_words(done.stdout, 'global_step: 1 ')
    check(done.stdout.count('run folder: ') == 1, done.stdout)


def two_nodes(bench):
    done = bench.capstan(('--nodes=2', '--ntasks-per-node=2'), bench.config(), *QUICK)
    check_words(done.stdout, 'global_step: 1 ')
    logs = sorted(file.name for file in (bench.folder / 'runs/small/logs').iterdir())
    check(logs == [f'rank-{rank}.log' for rank in range(4)], f'{logs}')


def without_srun(bench):
    """A batch script that forgets srun runs alone, and is told so."""
    job = bench.batch(('-n4',), f'{bench.program} run {bench.config()} {" ".join(QUICK)}\n')
    check(bench.wait_for_end(job) == 'COMPLETED', bench.output())
    check_words(bench.output(), f'running alone inside SLURM job {job}', 'write srun before the command')


def stale_variables(bench):
    """What users' scripts export for torchrun is ignored under srun, with a warning."""
    done = bench.capstan(('-n2',), bench.config(), *QUICK, env={'RANK': 0, 'WORLD_SIZE': 1, 'LOCAL_RANK': 0})
    check_words(done.stderr, 'RANK, WORLD_SIZE, LOCAL_RANK are set but srun started this program: ignored')
    check_words(done.stdout, 'global_step: 1 ')


CASES = (four_tasks, two_nodes, without_srun, stale_variables)
