#!/usr/bin/env bash
# The coordinator's job; submitted by scripts/slurm/start with the order and options for
# `trailtrap coordinator`.
set -u
order=$1
shift
echo "coordinator: job $SLURM_JOB_ID on $(hostname), start $((${SLURM_RESTART_COUNT:-0} + 1))"
again=
child=
# Slurm announces the time limit, and some sites preemption, by SIGUSR1 to this script alone.
# SIGTERM (scancel, preemption) reaches the child without our help; after scancel nothing is to be
# started again, after preemption Slurm does it.
trap 'again=yes; [ -z "$child" ] || kill -USR1 "$child"' USR1
trap 'again=' TERM
# Any free port will do: the access file tells it to the workers, also after a start on another
# node.
"$TRAILTRAP_PROGRAMS/trailtrap" coordinator --order "$order" --data "$TRAILTRAP_RUN/data" --json \
  --listen "0.0.0.0:${TRAILTRAP_PORT:-0}" --advertise "${TRAILTRAP_HOST:-$(hostname)}" "$@" \
  >"$TRAILTRAP_RUN/results.new" &
child=$!
# A trap interrupts wait; only the end of the child ends the loop.
while true; do
  wait "$child"
  code=$?
  kill -0 "$child" 2>/dev/null || break
done
echo "coordinator: exit code $code"
if [ "$code" -eq 0 ]; then
  mv "$TRAILTRAP_RUN/results.new" "$TRAILTRAP_RUN/results.json"
  # Workers that wait in the queue are not needed any more; those that run have heard.
  scancel --state=PENDING --name="trailtrap-worker-$SLURM_JOB_ID"
elif [ -n "$again" ]; then
  # A controller that is busy may refuse it at first. Slurm ends this script when it has agreed.
  for _ in 1 2 3 4 5; do
    if scontrol requeue "$SLURM_JOB_ID"; then
      sleep 30
      break
    fi
    sleep 2
  done
fi
exit "$code"
