"""slurm/submit and slurm/train.sbatch."""
import concurrent.futures
import re
import shutil

from bench import ROOT, check, check_words

SITE = '''
account= partition= constraint= memory= time=5 modules=() cpus_per_rank=1
program={program} container={container} container_options=(--nv) cache={folder}/cache
gate_gbps={gate} signal_s=120 requeue_exit_code={code} most_restarts=3
'''


def tree(bench, code=85, gate=5, container=''):
    """A copy of slurm/ that stands where a user's tree would, so that nothing is written into this one."""
    folder = bench.folder / 'tree'
    shutil.copytree(ROOT / 'slurm', folder / 'slurm')
    (folder / 'site.sh').write_text(SITE.format(program=bench.program, folder=bench.folder, code=code, gate=gate, container=container))
    return folder


def submit(bench, folder, *words, status=0, env=None):
    done = bench.slurm.run(folder / 'slurm/submit', *words, cwd=bench.folder,
                           env=bench.variables(CAPSTAN_SITE=folder / 'site.sh', **(env or {})))
    check(done.returncode == status, f'{words}: {done.returncode}\n{done.stdout}{done.stderr}')
    return done


def helped_unbuilt(bench):
    """Help, and what is wrong with the words, need no program; a configuration does."""
    folder = tree(bench)
    (folder / 'site.sh').write_text(SITE.format(program='none', folder=bench.folder, code=85, gate=5, container=''))
    for words in (['--help'], ['-h']):
        check_words(submit(bench, folder, *words).stdout, 'one experiment as a SLURM job')
    check_words(submit(bench, folder, '-N2', 'a.toml', status=2).stderr, 'write options in full')
    check_words(submit(bench, folder, 'none.toml', status=2).stderr, 'no configuration')
    check_words(submit(bench, folder, bench.config().name, status=2).stderr, 'no none: build it')


def program_of_a_module(bench):
    """The capstan that `module load` puts on the PATH is found, on the login node and in the job."""
    folder = tree(bench)
    programs = bench.folder / 'programs'
    programs.mkdir()
    (programs / 'capstan').write_text(f'#!/bin/sh\nexec {bench.program} "$@"\n')
    (programs / 'capstan').chmod(0o755)
    with (folder / 'site.sh').open('a') as site:
        site.write(f'program= modules=(capstan/1)\nmodule() {{ [ "$*" != "load capstan/1" ] || PATH={programs}:$PATH; }}\n')
    file = bench.config()
    submit(bench, folder, '--dry-run', file.name)
    # Not by slurm/submit, whose PATH the job would have.
    done = bench.slurm.run('sbatch', '--parsable', '--output=job.out', '--time=5', '--signal=USR1@0', 'slurm/train.sbatch', file, 'train.max_steps=2',
                           cwd=folder, env=bench.variables(CAPSTAN_SITE=folder / 'site.sh'))
    check(done.returncode == 0, done.stderr)
    check(bench.wait_for_end(done.stdout.strip()) == 'COMPLETED', bench.output('tree/job.out'))
    check_words(bench.output('tree/job.out'), ' Exit code  : 0')


def submitted_job(bench, folder, *words, env=None):
    """The number of the job that slurm/submit made."""
    return re.search(r'Submitted batch job (\d+)', submit(bench, folder, *words, env=env).stdout).group(1)


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


def swept(bench):
    """`capstan sweep --submit`: a job a run, and after all of them one that reports; what is done is not submitted again."""
    folder = tree(bench)
    words = (bench.program, 'sweep', bench.config(), '-n', '1,2', 'train.max_steps=2', '--table', 'fsdp-scaling', '--submit')

    def sweep():
        done = bench.slurm.run(*words, cwd=folder, env=bench.variables(CAPSTAN_SITE=folder / 'site.sh'))
        check(done.returncode == 0, f'{done.returncode}\n{done.stdout}{done.stderr}')
        return done.stdout

    said = sweep()
    file, report = re.search(r'the report comes when all have ended: (small-report-(\d+)\.out)\n', said).groups()
    check(said.count('Submitted batch job ') == 2, said)
    check(bench.wait_for_end(report) == 'COMPLETED', said)
    check_words(bench.output(f'tree/{file}'), 'FSDP: several GPUs, several nodes', 'Single Node, Single GPU  1 ', 'Single Node, 2 GPUs      2 ')
    again = sweep()
    check_words(again, 'sweep: small-1 is there: ', 'sweep: small-2 is there: ', 'Single Node, 2 GPUs      2 ')
    check('Submitted' not in again, again)


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
    for words, said in (
            (('--nodes', '2', file.name), 'write --nodes=2 if that is --nodes\'s, before the file'),
            ((file.name, '--nodes=2'), '--nodes=2 stands after the file: write --nodes=2 before it'),
            ((file.name, 'train.max_steps=2', '--nodes', '2'), '--nodes stands after the file: write --nodes=2, before the file'),
            (('--gpus=2', file.name), '--gpus=2: write --gpus-per-node=2: one rank a GPU'),
            (('--gpus-per-task=1', file.name), '--gpus-per-task=1: write --gpus-per-node=1'),
            (('--ntasks=2', file.name), '--ntasks=2: write --gpus-per-node=2, one rank a GPU, or without GPUs --ntasks-per-node=2'),
            (('--gres=gpu:2', '--ntasks-per-node=1', file.name), '--ntasks-per-node=1 with --gpus-per-node=2: one rank a GPU'),
            ((file.name, 'run.requeue_exit_code=75'), 'run.requeue_exit_code is 75, with which runs that failed end'),
            ((file.name, 'preflight.before_run=gate'), 'preflight.before_run is "gate", but there is no threshold')):
        check_words(submit(bench, folder, '--dry-run', *words, status=2).stderr, said)


def nodes_told_to_check(bench):
    """Host memory is a node's: what four ranks cannot offload on one node, they can on two."""
    folder = tree(bench)
    file = bench.config('cpu_offload = true')
    words = (file.name, 'run.host_memory=0.0003')
    done = submit(bench, folder, '--dry-run', '--ntasks-per-node=4', *words, status=2)
    check_words(done.stderr, 'for the 4 ranks of a node, and 314.57 KiB are left')
    submit(bench, folder, '--dry-run', '--nodes=2', '--ntasks-per-node=2', *words)


def dry_run(bench):
    folder = tree(bench)
    said = submit(bench, folder, '--dry-run', '--nodes=2', '--gpus-per-node=4', '--time=10', bench.config().name, 'run.name=mine').stdout
    check_words(said, 'sbatch --job-name=small-2x4 --nodes=2 --ntasks-per-node=4', '--signal=USR1@120', '--gpus-per-node=4', '--time=10',
                'slurm/train.sbatch logs/small-2x4-', 'run.name=mine')
    check(not list((folder / 'logs').iterdir()), 'a dry run left files')


def names_of_jobs(bench):
    """A job is called as its file, with the exercise before it where the file stands in a collection of configs/."""
    folder = tree(bench)
    text = bench.config().read_text()
    for place, name in (('configs/workshop/zero/baseline.toml', 'zero-baseline'), ('configs/workshop/baseline.toml', 'baseline'),
                        ('configs/baseline.toml', 'baseline'), ('mine/baseline.toml', 'baseline')):
        file = bench.folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        check_words(submit(bench, folder, '--dry-run', place).stdout, f'sbatch --job-name={name}-1x1 ')


def dry_runs_of_gres(bench):
    """GPUs asked for by --gres are ranks too; what else is in the list stays."""
    folder = tree(bench)
    file = bench.config()
    for gres, words in (('gpu:2', ('--ntasks-per-node=2', '--gpus-per-node=2 ')), ('gpu', ('--ntasks-per-node=1', '--gpus-per-node=1 ')),
                        ('gpu:a100:4,nvme:1', ('--ntasks-per-node=4', '--gpus-per-node=a100:4 ', '--gres=nvme:1')),
                        ('gpu:a100', ('--ntasks-per-node=1', '--gpus-per-node=a100:1 '))):
        check_words(submit(bench, folder, '--dry-run', f'--gres={gres}', file.name).stdout, *words)
    check_words(submit(bench, folder, '--dry-run', '--gpus-per-node=a100:2', file.name).stdout, '--ntasks-per-node=2', '--gpus-per-node=a100:2 ')


def dry_runs_of_times(bench):
    """A signal that would come as soon as a short job begins comes later, or not at all."""
    folder = tree(bench)
    file = bench.config()
    for asked, signal, said in (('8', 120, ''), ('07:59', 119, 'SIGUSR1 comes 119 s before the end, not 120'), ('0-00:05', 75, 'comes 75 s'),
                               ('4', 60, 'comes 60 s'), ('3', 0, 'no SIGUSR1 before the end: --time=3 is too short'), ('0:00:59', 0, 'no SIGUSR1'),
                               ('1-0', 120, ''), ('01:00:00', 120, ''), ('UNLIMITED', 120, ''), ('0', 120, '')):
        done = submit(bench, folder, '--dry-run', f'--time={asked}', file.name)
        check_words(done.stdout, f' --signal=USR1@{signal} ', f' --time={asked} ')
        check_words(done.stderr, said)
        check(said or not done.stderr, done.stderr)
    done = submit(bench, folder, '--dry-run', '--time=2', '--signal=USR2@90', file.name)
    check(' --signal=USR2@90 ' in done.stdout and not done.stderr, f'{done}')


def short_time(bench):
    """A job that may take no longer than signal_s is left alone: SLURM's signal would end it as soon as it begins."""
    folder = tree(bench)
    probe = bench.build / 'tests/run_fixtures/monitor/probe.so'
    file = bench.config(f'[monitor.probe]\npath = "{probe}"\npause_s = 0.5\n[checkpoint]\nevery_steps = 5\n')
    job = submitted_job(bench, folder, '--time=2', file.name, 'train.max_steps=80')   # SLURM looks for whom to signal every 30 s
    log = f'tree/logs/small-1x1-{job}.out'
    check(bench.wait_for_end(job) == 'COMPLETED', bench.output(log))
    check('stopped by' not in bench.output(log), bench.output(log))
    check(bench.job(job)['Restarts'] == '0', bench.output(log))


def tasks_that_are_not_the_ranks(bench):
    """The job script says so where tasks and GPUs do not agree, instead of training on fewer than it writes down."""
    folder = tree(bench)
    file = bench.config()
    kinds = (('one', ('--gres=gpu:2', '--ntasks-per-node=1'), 2), ('two', ('--gres=gpu:2', '--ntasks-per-node=2'), 0),
             ('gpus', ('--gpus-per-node=2', '--cpus-per-task=2'), 0), ('tasks', ('--ntasks=2',), 2))

    def submitted(kind):
        name, options, _ = kind
        return bench.slurm.run('sbatch', '--wait', f'--output={name}.out', '--time=5', '--nodes=1', *options, 'slurm/train.sbatch', file,
                               'train.max_steps=2', cwd=folder, env=bench.variables(CAPSTAN_SITE=folder / 'site.sh'))

    with concurrent.futures.ThreadPoolExecutor(len(kinds)) as pool:
        ended = list(pool.map(submitted, kinds))
    for (name, options, status), done in zip(kinds, ended, strict=True):
        output = bench.output(f'tree/{name}.out')
        check(done.returncode == status, f'{options}: {done.returncode}\n{output}\n{done.stderr}')
        if status == 0:
            check_words(output, ', 2 rank(s) each', 'connected 2/2: ')
        else:
            check_words(output, 'task(s) on 1 node(s)', 'ask only for --nodes=N --gpus-per-node=G')


def queued_again_by_the_script(bench):
    """Where SLURM has no RequeueExit for the code, the job script asks for it; the run continues in its folder."""
    folder = tree(bench, code=86)   # what the run is not told, it is told by the job script
    file = bench.held()
    job = submitted_job(bench, folder, '--ntasks-per-node=2', file.name, 'train.max_steps=40')
    log = f'tree/logs/small-1x2-{job}.out'
    bench.wait_for_text('global_step: 7 ', log)
    bench.slurm.run('scancel', '--signal=USR2', f'{job}.0')
    bench.go_on()
    ended = bench.wait_for_end(job)
    check(ended == 'COMPLETED', f'{ended}\n{bench.output(log)}')
    check_words(bench.output(log), 'capstan: stopped by SIGUSR2 after step ', ' Exit code  : 86', ' Restart    : 1', 'resuming from ', ' Exit code  : 0')


def gate(bench):
    """On several nodes with GPUs the job begins with the bandwidth gate: it lets a run pass, or ends it with 46."""
    quick = '[preflight]\ngate_mib = 1\ngate_warmup = 1\ngate_iterations = 2\n'   # what is measured here is the CPU
    started = []
    for gbps, state, code, words in ((1e-6, 'COMPLETED', 0, 'global_step: 1 '), (1e9, 'FAILED', 46, 'Bandwidth below threshold')):
        case = bench.case(f'gate-{code}')
        folder = tree(case, gate=f'{gbps:.6f}')
        file = case.config(quick)
        job = submitted_job(case, folder, '--nodes=2', '--gpus-per-node=2', file.name, 'train.max_steps=2')
        started.append((case, folder, job, state, code, words))
    for case, folder, job, state, code, words in started:
        log = f'tree/logs/small-2x2-{job}.out'
        ended = case.wait_for_end(job)
        output = case.output(log)
        check(ended == state, f'{ended}\n{output}')
        check_words(output, ' GB/s (one rank a node)\n', 'connected 4/4: 4 ranks on 2 nodes by srun', words, f' Exit code  : {code}\n')
        check(('global_step: 1 ' in output) == (code == 0), output)
        check(case.job(job)['Restarts'] == '0', output)
        check((folder / f'runs/small-2x2-{job}/preflight.json').exists(), output)


def gate_of_the_file(bench):
    """A gate that the configuration has itself is not replaced by the site's."""
    folder = tree(bench, gate='1000000')
    jobs = []
    for own, measures in (('before_run = "gate"\nmin_bus_gbps = 1e-6', True), ('min_bus_gbps = 1e-6', True), ('before_run = "off"', False)):
        file = bench.config(f'[preflight]\n{own}\ngate_mib = 1\ngate_warmup = 1\ngate_iterations = 2\n')   # frozen by submit
        jobs.append((own, measures, submitted_job(bench, folder, '--nodes=2', '--gpus-per-node=1', file.name, 'train.max_steps=2')))
    for own, measures, job in jobs:
        output = f'tree/logs/small-2x1-{job}.out'
        check(bench.wait_for_end(job) == 'COMPLETED', f'{own}\n{bench.output(output)}')
        check(('Measured AllReduce BW: ' in bench.output(output)) == measures, f'{own}\n{bench.output(output)}')


def array(bench):
    """Tasks of an array have runs and logs of their own; one that is stopped is queued again by itself, and continues in its folder."""
    folder = tree(bench, code=87)   # the configuration's own code counts
    file = bench.held()
    job = submitted_job(bench, folder, '--array=0-1', '--ntasks-per-node=2', file.name, 'train.max_steps=40', 'run.requeue_exit_code=86')
    bench.wait_until(lambda: len(set(tasks_of(bench, job))) == 2, 'both tasks of the array have started')
    numbers = tasks_of(bench, job)
    logs = [f'tree/logs/small-1x2-{number}.out' for number in numbers]
    for log in logs:
        bench.wait_for_text('global_step: 7 ', log)
    bench.slurm.run('scancel', '--signal=USR2', f'{job}_1.0')
    bench.go_on()
    bench.runs = 'tree/runs'
    for task, log in enumerate(logs):
        check(bench.wait_for_end(f'{job}_{task}') == 'COMPLETED', bench.output(log))
        check_words(bench.output(log), ' Exit code  : 0')
        steps, _ = bench.metrics(f'small-1x2-{numbers[task]}')
        check([step['step'] for step in steps] == list(range(40)), f'{steps}')
    check_words(bench.output(logs[1]), 'capstan: stopped by SIGUSR2 after step ', ' Restart    : 1', 'resuming from ')
    check('stopped by' not in bench.output(logs[0]), bench.output(logs[0]))
    check(len(list((folder / 'runs').iterdir())) == 2, 'other folders than one a task')


def tasks_of(bench, job):
    """The numbers of an array's tasks as jobs, in the order of the tasks; all are the array's own until they start."""
    lines = bench.slurm.run('squeue', '--array', '--noheader', '--states=all', '--format=%K %A', f'--jobs={job}').stdout.splitlines()
    return [number for _, number in sorted(line.split() for line in lines)]


def array_of_one_name(bench):
    """One run.name for all tasks of an array is refused, by slurm/submit and by the job itself."""
    folder = tree(bench)
    file = bench.config()
    words = 'all tasks of this array would be called mine: leave run.name away'
    check_words(submit(bench, folder, '--array=0-1', file.name, 'run.name=mine', status=2).stderr, words)
    check('submitted' not in submit(bench, folder, '--array=0-1', file.name, 'run.name=mine', status=2).stdout, 'submitted')
    done = bench.slurm.run('sbatch', '--parsable', '--array=0-1', '--output=array-%a.out', 'slurm/train.sbatch', file, 'run.name=mine', cwd=folder,
                           env=bench.variables(CAPSTAN_SITE=folder / 'site.sh'))
    check(done.returncode == 0, done.stderr)
    for task in (0, 1):
        bench.wait_for_text(words, f'tree/array-{task}.out')
    check(not (folder / 'runs').exists(), 'a refused task made a folder')


# Stands where apptainer would: writes down how it was called, insists that what is bound is there, and runs the program
# without SLURM's commands, which no container has.
APPTAINER = '''#!/bin/bash
printf '%s\\n' "$*" >>"{log}"
printf 'end %s, cache %s\\n' "${{SLURM_JOB_END_TIME:-}}" "${{CAPSTAN_CACHE:-}}" >>"{log}"
[ "$1" = exec ] || exit 255
shift
while [ "${{1#--}}" != "$1" ]; do
  if [ "$1" = --bind ]; then
    [ -d "$2" ] || {{ echo "FATAL: mount source $2 doesn't exist" >&2; exit 255; }}
    shift
  fi
  shift
done
[ -f "$1" ] || exit 255
shift
PATH=/nowhere exec "$@"
'''


def in_a_container(bench):
    """Ranks run by apptainer, one container each: the tree and the cache are bound, and SLURM's commands are not needed."""
    image = bench.folder / 'capstan.sif'
    image.write_text('an image')
    programs = bench.folder / 'programs'
    programs.mkdir()
    (programs / 'apptainer').write_text(APPTAINER.format(log=bench.folder / 'apptainer.log'))
    (programs / 'apptainer').chmod(0o755)
    folder = tree(bench, container=image)
    path = {'PATH': f'{programs}:{bench.slurm.environment["PATH"]}'}
    job = submitted_job(bench, folder, '--nodes=2', '--ntasks-per-node=2', bench.config().name, 'train.max_steps=2', env=path)
    state = bench.wait_for_end(job)
    output = bench.output(f'tree/logs/small-2x2-{job}.out')
    check(state == 'COMPLETED', f'{state}\n{output}')
    check_words(output, 'connected 4/4: 4 ranks on 2 nodes by srun', ' Exit code  : 0')
    calls = bench.output('apptainer.log').splitlines()
    begin = f'exec --nv --bind {folder} --bind {bench.folder}/cache {image} {bench.program} '
    check(calls[0].startswith(begin + 'check '), f'{calls}')
    ends = [line for line in calls[2:] if line.startswith('end ')]   # after check's two; ranks' lines come in any order
    runs = [line for line in calls[2:] if line not in ends]
    check([call.startswith(begin + 'run --verbose logs/small-2x2-') for call in runs] == [True] * 4, f'{calls}')
    check([bool(re.fullmatch(rf'end \d+, cache {bench.folder}/cache', line)) for line in ends] == [True] * 4, f'{calls}')

    image.unlink()
    check_words(submit(bench, folder, 'small.toml', status=2, env=path).stderr, f'no container image {image} (container in ')


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


CASES = (shellcheck, documented, helped_unbuilt, program_of_a_module, submitted, swept, refused_on_the_login_node, nodes_told_to_check, dry_run, names_of_jobs, dry_runs_of_gres, dry_runs_of_times,
         short_time, tasks_that_are_not_the_ranks, queued_again_by_the_script, gate, gate_of_the_file, array,
         array_of_one_name, in_a_container)
