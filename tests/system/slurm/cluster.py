"""A real SLURM on this host: slurmctld and four slurmd, "nodes" of 8 cores and 4 GPUs that are not there.

Ports, files and processes are its own, so that several can run side by side, and next to a SLURM of the host's.
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PROGRAMS = ('slurmctld', 'slurmd', 'srun', 'sbatch', 'squeue', 'scontrol', 'scancel', 'sinfo')
NODES = ('n1', 'n2', 'n3', 'n4')

CONF = '''
ClusterName=capstan
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
SlurmctldPort={port}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
KillWait=5
OverTimeLimit=0
JobRequeue=1
RequeueExit=85
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiParams=ports={reserved}-{reserved_end}
GresTypes=gpu
NodeName=n[1-4] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{node_port}-{node_end}] CPUs=8 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:4
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=10
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF
'''

GRES = 'AutoDetect=off\nNodeName=n[1-4] Name=gpu File={folder}/dev/nvidia[0-3]\n'


def missing():
    """What this host lacks to run a cluster, in words; '' when nothing."""
    absent = [name for name in PROGRAMS if not shutil.which(name)]
    if absent:
        return f'{absent[0]} is not installed (apt-get install slurm-wlm)'
    if os.getuid() != 0:
        return 'only root can start slurmd'
    return ''


PORTS = 65                                                              # of one cluster
blocks = iter(range(16817 + os.getpid() % 500 * 20, 60000, PORTS))      # no two clusters ask for the same


def free_ports():
    """The first of neighbouring ports that no process listens on."""
    for first in blocks:
        sockets = []
        try:
            for port in range(first, first + PORTS):
                sockets.append(socket.socket())
                sockets[-1].bind(('127.0.0.1', port))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()
    raise RuntimeError('no free ports')


class Cluster:
    """Runs from start() to stop(), and takes jobs when wait_for_nodes() has returned. Commands of its own see it through SLURM_CONF."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='capstan-slurm-'))
        self.host = socket.gethostname().split('.')[0]
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(
            ('SLURM', 'SRUN_', 'SBATCH_', 'CAPSTAN', 'OMPI_', 'TORCHELASTIC_'))}
        for name in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'MASTER_ADDR', 'MASTER_PORT', 'CUDA_VISIBLE_DEVICES'):
            self.environment.pop(name, None)
        self.environment['SLURM_CONF'] = str(self.folder / 'slurm.conf')
        self.started = {}   # 'slurmctld' or a node -> its process

    def start(self):
        for name in ('state', 'log', 'run', 'dev', *(f'spool/{node}' for node in NODES)):
            (self.folder / name).mkdir(parents=True)
        for gpu in range(4):   # SLURM wants character devices; they are never opened
            os.mknod(self.folder / f'dev/nvidia{gpu}', 0o600 | 0o020000, os.makedev(1, 3))
        port = free_ports()
        numbers = {'port': port, 'node_port': port + 1, 'node_end': port + 4, 'reserved': port + 5, 'reserved_end': port + PORTS - 1}
        (self.folder / 'slurm.conf').write_text(CONF.format(host=self.host, folder=self.folder, **numbers))
        (self.folder / 'gres.conf').write_text(GRES.format(folder=self.folder))
        self.launch('slurmctld', 'slurmctld', '-D', '-i')
        for node in NODES:
            self.launch_node(node)

    def launch(self, name, *command):
        with open(self.folder / f'log/{name}.out', 'ab') as log:
            self.started[name] = subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                                  stderr=log, start_new_session=True)

    def launch_node(self, node):
        self.launch(node, 'slurmd', '-D', '-N', node)

    def wait_for_nodes(self, limit_s=60):
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if self.run('sinfo', '--noheader', '--Node', '--partition', 'low', '--format', '%T').stdout.split() == ['idle'] * len(NODES):
                return
            time.sleep(0.2)
        logs = '\n'.join(file.read_text(errors='replace')[-2000:] for file in sorted((self.folder / 'log').iterdir()))
        raise RuntimeError(f'the nodes did not come up:\n{logs}')

    def run(self, *command, limit_s=120, **more):
        """A command of SLURM's, or of anybody's, in the cluster's environment; its output is text."""
        variables = {**self.environment, **more.pop('env', {})}
        return subprocess.run([str(word) for word in command], env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=limit_s, check=False, text=True, errors='replace', **more)

    def kill_node(self, node):
        """What a node looks like whose power failed: slurmd and all that it started are gone."""
        self.started[node].kill()
        self.started[node].wait()
        for process in processes():   # its step daemons first, so that none of them tells srun about its tasks
            if read(process / 'cmdline').startswith('slurmstepd') and self.spool_of(process) == node:
                kill(process)
        for process in processes():
            if f'SLURMD_NODENAME={node}\0' in read(process / 'environ') and self.owns(process):
                kill(process)

    def owns(self, process):
        return f'SLURM_CONF={self.folder}/slurm.conf\0' in read(process / 'environ')

    def spool_of(self, process):
        for node in NODES:
            try:
                if any(str(self.folder / 'spool' / node) in os.readlink(fd) for fd in (process / 'fd').iterdir()):
                    return node
            except OSError:
                continue
        return ''

    def stop(self):
        if self.started:
            self.run('scancel', '--user', 'root', limit_s=20)
        for name in (*NODES, 'slurmctld'):
            process = self.started.get(name)
            if process and process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.started.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for process in processes():   # tasks and step daemons that outlived them
            if self.owns(process):
                kill(process)
        shutil.rmtree(self.folder, ignore_errors=True)


def processes():
    return [entry for entry in pathlib.Path('/proc').iterdir() if entry.name.isdigit() and int(entry.name) != os.getpid()]


def read(file):
    try:
        return file.read_bytes().decode(errors='replace')
    except OSError:
        return ''


def kill(process):
    try:
        os.kill(int(process.name), signal.SIGKILL)
    except OSError:
        pass
