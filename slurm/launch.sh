# shellcheck shell=bash
# What slurm/submit and slurm/train.sbatch have in common. Read in Capstan's folder.

# shellcheck source-path=SCRIPTDIR source=site.sh
. "${CAPSTAN_SITE:-slurm/site.sh}"

fail() {
  echo "slurm: $*" >&2
  exit 2
}

# How Capstan is called: on this host, or in a container that sees this folder and the cache.
capstan=()
if [ -n "$container" ]; then
  [ -f "$container" ] || fail "no container image $container (container in ${CAPSTAN_SITE:-slurm/site.sh})"
  capstan=(apptainer exec "${container_options[@]}" --bind "$PWD" ${cache:+--bind "$cache"} "$container" "${program:-capstan}")
else
  capstan=("${CAPSTAN:-${program:-build/cuda/bin/capstan}}")
  [ -x "${capstan[0]}" ] ||
    fail "no ${capstan[0]}: build it (cmake --preset cuda && ninja -C build/cuda), or name one in CAPSTAN or in ${CAPSTAN_SITE:-slurm/site.sh}"
fi

load_modules() {
  [ ${#modules[@]} = 0 ] || module load "${modules[@]}"
}

# One cache for all runs; CAPSTAN_CACHE of the environment wins.
make_cache() {
  cache=${CAPSTAN_CACHE:-$cache}
  [ -n "$cache" ] || return 0
  mkdir -p "$cache" || fail "cannot make the cache $cache (cache in ${CAPSTAN_SITE:-slurm/site.sh})"
  CAPSTAN_CACHE=$(cd "$cache" && pwd)
  export CAPSTAN_CACHE
}

# When SLURM ends the job, for ranks in containers that cannot ask: older SLURMs don't say it in the environment.
know_the_end() {
  [ -z "${SLURM_JOB_END_TIME:-}" ] || return 0
  local end
  end=$(scontrol show job --oneliner "$SLURM_JOB_ID" 2>/dev/null | grep -oE ' EndTime=[0-9]{4}-[0-9T:-]+' | cut -d= -f2) || return 0
  SLURM_JOB_END_TIME=$(date --date="$end" +%s 2>/dev/null) || return 0
  export SLURM_JOB_END_TIME
}

# The job goes back into the queue: by SLURM itself where it takes the exit code for that, else by asking it. Not when
# somebody cancelled it, or SLURM preempts it and queues it again anyway: it is no longer RUNNING then.
queue_again() {
  if [ "${SLURM_RESTART_COUNT:-0}" -ge "$most_restarts" ]; then
    echo "slurm: this job was started $((SLURM_RESTART_COUNT + 1)) times and is not done: not queued again (most_restarts)" >&2
    exit 1
  fi
  if [ "$(date +%s)" -lt "${SLURM_JOB_END_TIME:-9999999999}" ]; then   # else its time limit, which no exit code undoes
    scontrol show job --oneliner "$SLURM_JOB_ID" | grep -q ' JobState=RUNNING ' || return 0
    if scontrol show config | grep -q "^RequeueExit  *=.*\b$requeue_exit_code\b"; then return 0; fi
  fi
  local job=$SLURM_JOB_ID
  if [ -n "${SLURM_ARRAY_JOB_ID:-}" ]; then job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID; fi
  scontrol requeue "$job" || echo "slurm: SLURM refuses to queue job $job again: submit it once more with run.name=$SLURM_JOB_NAME-$SLURM_JOB_ID" >&2
}

# Returns when all nodes answer; else stays until SLURM has found the lost one, for at most ten minutes.
wait_for_lost_node() {
  if timeout 30 srun --overlap --nodes="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --cpus-per-task=1 true 2>/dev/null; then return 0; fi
  echo "slurm: a node of this job does not answer: waiting for SLURM to find it, and to queue the job again"
  sleep 600 &
  wait $! || true
}
