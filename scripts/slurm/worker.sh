#!/usr/bin/env bash
# An element of the array of workers; submitted by scripts/slurm/start with the number of the
# coordinator's job.
set -u
leader=$1
# Elements have numbers of their own, and one of them that of the whole array: only this name is
# safe to requeue.
job=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}
echo "worker: job $job on $(hostname), start $((${SLURM_RESTART_COUNT:-0} + 1))"
# Whether the coordinator's job runs or waits; if Slurm does not answer, it may. One that is
# COMPLETING may be on its way back into the queue: whoever left for good then would be missing.
coordinator_is_there() {
  local states
  states=$(squeue --noheader --job "$leader" --format %T 2>&1)
  case $states in
    '' | *'Invalid job id'* | COMPLETED | CANCELLED | FAILED) return 1 ;;
  esac
}
if ! coordinator_is_there; then
  echo "worker: the coordinator's job has ended"
  exit 0
fi
# Older versions of Slurm do not say when a job ends.
if [ -z "${SLURM_JOB_END_TIME:-}" ]; then
  end=$(squeue --noheader --job "$job" --format %e | head -n 1)
  if [ -n "$end" ] && SLURM_JOB_END_TIME=$(date --date "$end" +%s 2>/dev/null); then
    export SLURM_JOB_END_TIME
  else
    unset SLURM_JOB_END_TIME
  fi
fi
again=yes
child=
# As in coordinator.sh: SIGUSR1 comes to this script alone, SIGTERM to the worker too.
trap '[ -z "$child" ] || kill -USR1 "$child"' USR1
trap 'again=' TERM
read -ra options <<<"${TRAILTRAP_WORKER_OPTIONS:-}"
"$TRAILTRAP_PROGRAMS/trailtrap-worker" --access "$TRAILTRAP_RUN/data/access.json" "${options[@]}" &
child=$!
while true; do
  wait "$child"
  code=$?
  kill -0 "$child" 2>/dev/null || break
done
echo "worker: exit code $code"
# 75: there is more to do. Everything else is final: 0 done, 78 never again.
if [ "$code" -eq 75 ] && [ -n "$again" ] && coordinator_is_there; then
  # A controller that is busy may refuse it at first. Slurm ends this script when it has agreed.
  for _ in 1 2 3 4 5; do
    if scontrol requeue "$job"; then
      sleep 30
      break
    fi
    sleep 2
  done
fi
exit "$code"
