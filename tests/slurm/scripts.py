"""slurm/submit and slurm/train.sbatch."""
import re
import shutil

from bench import ROOT, check, check_words

SITE = '''
account= partition= constraint= memory= time=5 modules=() cpus_per_rank=1
program={program} container= container_options=() cache={folder}/cache
gate_gbps=5 signal_s=120 requeue_exit_code={code} most_restarts=3
'''


def tree(bench, code=85):
    """A copy of slurm/ that stands where a user's tree would, so that nothing is written into this one."""
    folder = bench.folder / 'tree'
    shutil.copytree(ROOT / 'slurm', folder / 'slurm')
    (folder / 'site.sh').write_text(SITE.format(program=bench.program, folder=bench.folder, code=code))
    return folder


def submit(bench, folder, *words, status=0):
    done = bench.slurm.run(folder / 'slurm/submit', *words, cwd=bench.folder, env=bench.variables(CAPSTAN_SITE=folder / 'site.sh'))
    check(done.returncode == status, f'{words}: {done.returncode}\n{done.stdout}{done.stderr}')
    return done


def submitted_job(bench, folder, *words):
    """The number of the job that slurm/submit made."""
    return re.search(r'Submitted batch job (\d+)', submit(bench, folder, *words).stdout).group(1)


def submitted(bench):
    """logs/, a name, a frozen configuration; then the job's blocks, its run folder and the cache."""
    folder = tree(bench)
    file = bench.config()
    said = submit(bench, folder, '--nodes=2', '--ntasks-per-node=2', file.name, 'train.max_steps=2').stdout
    frozen = folder / re.search(r'frozen: (\S+)', said).group(1)
    job = re.search(r'Submitted batch job (\d+)', said).group(1)
    check(frozen.name.startswith('small-2x2-'), frozen.name)
    check_words(frozen.read_text(), 'max_steps = 2')
    file.write_text('nonsense')   # SLURM reads files when a job starts; the frozen one is not this one
    check(bench.wait_for_end(job) == 'COMPLETED', bench.output(f'tree/logs/small-2x2-{job}.out'))
    output = bench.output(f'tree/logs/small-2x2-{job}.out')
    check_words(output, ' Job started\n Start time : ', f' Job        : {job} (small-2x2)', ' Job finished\n End time   : ', ' Exit code  : 0')
    check(re.search(r'Total time : \d\d:\d\d:\d\d\n', output), output)
    check((folder / f'runs/small-2x2-{job}/summary.json').exists(), output)
    check((bench.folder / 'cache').is_dir(), 'no shared cache folder')


def refused_on_the_login_node(bench):
    """All faults at once, before anybody waits in a queue."""
    folder = tree(bench)
    file = bench.config()
    done = submit(bench, folder, '--nodes=2', '--ntasks-per-node=2', file.name, 'optimizer.lr=-1', 'train.sed=3', status=2)
    check_words(done.stderr, '(2 faults)', 'optimizer.lr', 'train.sed')
    done = submit(bench, folder, '-N2', file.name, status=2)
    check_words(done.stderr, '-N2: write options in full, with =')
    done = submit(bench, folder, '--gpus-per-node=4', '--ntasks-per-node=2', file.name, status=2)
    check_words(done.stderr, 'one rank a GPU; leave --ntasks-per-node away')
    done = submit(bench, folder, 'none.toml', status=2)
    check_words(done.stderr, 'no configuration ', 'none.toml')


def dry_run(bench):
    folder = tree(bench)
    said = submit(bench, folder, '--dry-run', '--nodes=2', '--gpus-per-node=4', '--time=10', bench.config().name, 'run.name=mine').stdout
    check_words(said, 'sbatch --job-name=small-2x4 --nodes=2 --ntasks-per-node=4', '--signal=USR1@120', '--gpus-per-node=4', '--time=10',
                'slurm/train.sbatch logs/small-2x4-', 'run.name=mine')
    check(not list((folder / 'logs').iterdir()), 'a dry run left files')


def queued_again_by_the_script(bench):
    """Where SLURM has no RequeueExit for the code, the job script asks for it; the run goes on in its folder."""
    folder = tree(bench, code=86)
    file = bench.config('[monitor.probe]\npath = "%s"\npause_s = 0.1\n[checkpoint]\nevery_steps = 5\n' %
                        (bench.build / 'tests/run_fixtures/monitor/probe.so'))
    job = submitted_job(bench, folder, '--ntasks-per-node=2', file.name, 'train.max_steps=40', 'run.requeue_exit_code=86')
    log = f'tree/logs/small-1x2-{job}.out'
    bench.wait_for_text('global_step: 7 ', log)
    bench.slurm.run('scancel', '--signal=USR2', f'{job}.0')
    check(bench.wait_for_end(job) == 'COMPLETED', bench.output(log))
    check_words(bench.output(log), 'capstan: stopped by SIGUSR2 after step ', ' Exit code  : 86', ' Restart    : 1', 'resuming from ', ' Exit code  : 0')


def shellcheck(bench):
    """Nothing to say about slurm/*."""
    if not shutil.which('shellcheck'):
        print('shellcheck is not installed: slurm/ is not looked at')
        return
    done = bench.slurm.run('shellcheck', '--external-sources', *sorted((ROOT / 'slurm').iterdir()), cwd=ROOT)
    check(done.returncode == 0, done.stdout)


def documented(bench):
    """Every configuration that docs/slurm.md names is there."""
    text = (ROOT / 'docs/slurm.md').read_text().replace('$w/', 'configs/workshop/').replace('$c/', 'configs/')
    named = set(re.findall(r'configs/[\w/${}()* -]*?\.toml', text))
    check(len(named) >= 12, f'{named}')
    for name in named:
        pattern = re.sub(r'(?:\$\(\(.*?\)\)|\$\{?\w\}?)+', '*', name)
        check(list(ROOT.glob(pattern)), f'docs/slurm.md names {name}, and nothing is called so')


CASES = (shellcheck, documented, submitted, refused_on_the_login_node, dry_run, queued_again_by_the_script)
