# shellcheck shell=bash disable=SC2034
# What is particular to a cluster, read by slurm/submit and by slurm/train.sbatch. Fill in what yours needs; another
# file can be named in CAPSTAN_SITE. Relative paths start at Capstan's folder.

account=            # sbatch --account
partition=          # sbatch --partition
gpu=                # this cluster's GPUs as `capstan check --gpu` names them, such as a100-80g: what does not fit is not submitted
constraint=         # sbatch --constraint, such as a100 (bf16 needs compute capability 8.0, anything 7.5: no V100)
cpus_per_rank=8     # sbatch --cpus-per-task; more where the optimizer is offloaded
memory=             # sbatch --mem, a node's, such as 256G; 0: all of it; empty: the cluster's own default
time=04:00:00       # sbatch --time; a run that needs longer saves, and is queued again
modules=()          # module load …, such as (cuda/13.0); not needed where LibTorch brings its own CUDA

program=            # capstan; empty: build/cuda/bin/capstan, else the PATH's, or the container's own
container=          # an apptainer image (.sif) in which it runs; empty: none
container_options=(--nv)
cache=.cache        # folder that all runs share, for tokenized samples and compiled kernels; not under a small $HOME

gate_gbps=5         # on several nodes: all-reduce bus bandwidth, GB/s, without which a run does not start; 0: no gate
signal_s=120        # SIGUSR1 so long before the time limit (a quarter of it at most), besides what a run asks itself
requeue_exit_code=85   # run.requeue_exit_code, where the configuration does not set it
most_restarts=100   # then a job that is still not done fails instead of being queued again
