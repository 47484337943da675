# shellcheck shell=bash
# What slurm/submit and slurm/train.sbatch have in common. Read in Capstan's folder.

# shellcheck source-path=SCRIPTDIR source=site.sh
. "${CAPSTAN_SITE:-slurm/site.sh}"

fail() {
  echo "slurm: $*" >&2
  exit 2
}

# One cache for all runs; CAPSTAN_CACHE of the environment wins.
make_cache() {
  cache=${CAPSTAN_CACHE:-$cache}
  [ -n "$cache" ] || return 0
  mkdir -p "$cache" || fail "cannot make the cache $cache (cache in ${CAPSTAN_SITE:-slurm/site.sh})"
  cache=$(cd "$cache" && pwd)
  export CAPSTAN_CACHE=$cache
}

# How Capstan is called: on this host, or in a container that sees this folder and the cache. Sets the array capstan.
find_program() {
  if [ -n "$container" ]; then
    make_cache   # only what is there can be bound
    [ -f "$container" ] || fail "no container image $container (container in ${CAPSTAN_SITE:-slurm/site.sh})"
    capstan=(apptainer exec "${container_options[@]}" --bind "$PWD" ${cache:+--bind "$cache"} "$container" "${program:-capstan}")
  else
    # Beside a tree its build, beside a copy of this folder what is installed.
    [ -n "$program" ] || [ -x build/cuda/bin/capstan ] || program=$(command -v capstan) || true
    capstan=("${CAPSTAN:-${program:-build/cuda/bin/capstan}}")
    [ -x "${capstan[0]}" ] ||
      fail "no ${capstan[0]}: build it (cmake --preset cuda && ninja -C build/cuda), have capstan on the PATH, or name one in CAPSTAN or in ${CAPSTAN_SITE:-slurm/site.sh}"
  fi
}

load_modules() {
  [ ${#modules[@]} = 0 ] || module load "${modules[@]}"
}

# The tasks of an array run at the same time, in folders of their own.
refuse_one_name() {
  fail "all tasks of this array would be called ${1#run.name=}: leave run.name away, and each is called <job's name>-<its job's number>"
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
  local job=$SLURM_JOB_ID   # of an array the one task: the number of one of them is the whole array's too
  if [ -n "${SLURM_ARRAY_JOB_ID:-}" ]; then job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID; fi
  local attempt said
  for attempt in 1 2 3 4 5; do   # a busy controller does not always answer
    if [ "$attempt" -gt 1 ]; then sleep $((3 * attempt)); fi
    if [ "$(date +%s)" -lt "${SLURM_JOB_END_TIME:-9999999999}" ]; then   # else its time limit, which no exit code undoes
      # Not through a pipe: what reads it may close it early, which would look like a failure of scontrol's.
      said=$(scontrol show job --oneliner "$job") || continue
      grep -q ' JobState=RUNNING ' <<<"$said" || return 0
      said=$(scontrol show config) || said=''
      if grep -q "^RequeueExit  *=.*\b$requeue_exit_code\b" <<<"$said"; then return 0; fi
    fi
    if scontrol requeue "$job"; then return 0; fi
  done
  echo "slurm: SLURM does not queue job $job again: submit it once more with run.name=$SLURM_JOB_NAME-$SLURM_JOB_ID" >&2
}

# Returns when all nodes answer; else stays until SLURM has found the lost one, for at most ten minutes.
wait_for_lost_node() {
  if timeout 30 srun --overlap --nodes="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --cpus-per-task=1 true 2>/dev/null; then return 0; fi
  echo "slurm: a node of this job does not answer: waiting for SLURM to find it, and to queue the job again"
  sleep 600 &
  wait $! || true
}
