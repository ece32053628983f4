#!/bin/bash -l
# Rendered by `longline deploy slurm`. It holds no secret.
#
#   sbatch FILE              run in a workspace of its own
#   sbatch FILE WORKSPACE    go on in the workspace of an earlier job
#
<% for option in options %>
#SBATCH << option >>
<% endfor %>

warned=0 stopped=0 interrupted=0 run= canary=

# Slurm's warning before the time limit, to this shell only.
warn() {
  warned=1 interrupted=1
  stop
}

# At the end of a job (scancel, preemption) Slurm sends SIGTERM to every process here; others send
# it to this shell only. The canary tells which it was, for the run must get it once: at a second
# SIGTERM it gives up at once.
end() {
  interrupted=1
  sleep 0.3
  if [ -z "$canary" ] || kill -0 "$canary" 2>/dev/null; then stop; else stopped=1; fi
}

stop() {
  if [ "$stopped" = 0 ] && [ -n "$run" ]; then kill -TERM "$run" 2>/dev/null || :; fi
  stopped=1
}

clean() {
  if [ -n "$canary" ]; then { kill "$canary"; wait "$canary"; } 2>/dev/null || :; fi
  if [ -n "${scratch:-}" ]; then rm -rf -- "$scratch"; fi
}

trap warn USR1
trap end TERM
trap clean EXIT

<% for module in modules %>
module load << module | sh >> || exit
<% endfor %>
set -euo pipefail

: "${SLURM_JOB_ID:?not in a job; submit this with sbatch}"
base=${1:-${SLURM_JOB_NAME}-${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}}
case $base in
  *[!A-Za-z0-9._-]* | [!A-Za-z0-9]*) echo "longline: not a workspace's name: $base" >&2; exit 2 ;;
esac
export LONGLINE_REPOSITORY=<< repository | sh >>
export LONGLINE_REVISION=<< revision | sh >>
export LONGLINE_CACHE=<< cache | sh >>
export LONGLINE_WORKSPACE=<< workspaces | sh >>/$base${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}
export PATH=<< programs | sh >>:$PATH

if [ -z "${PREFECT_API_URL:-}" ]; then
  echo "longline: PREFECT_API_URL is not set; a temporary Prefect server is used" >&2
  # Its database is on this node: SQLite and network file systems do not go together.
  scratch=$(mktemp -d)
  export PREFECT_SERVER_DATABASE_CONNECTION_URL="sqlite+aiosqlite:///$scratch/prefect.db"
fi

<% include "workspace.sh" %>
echo "longline: workspace $LONGLINE_WORKSPACE, commit $(git rev-parse --short HEAD)" >&2

arguments=(<< arguments | map("sh") | join(" ") >>)
<% if variations %>
variations=(<< variations | map("sh") | join(" ") >>)
arguments+=(-S "${variations[$SLURM_ARRAY_TASK_ID]}")
<% endif %>
if [ "$stopped" = 1 ]; then exit 143; fi

# Not by srun: that turns SIGTERM into SIGKILL of what it runs.
sleep infinity &
canary=$!
longline run << limits | map("sh") | join(" ") >> "${arguments[@]}" &
run=$!

status=0
while :; do
  interrupted=0 status=0
  wait "$run" || status=$?
  if [ "$interrupted" = 0 ]; then break; fi
done

if [ "$status" != 0 ]; then
  if [ "$warned" = 1 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt << requeues >> ]; then
    echo "longline: the time is up; back into the queue, to go on in $LONGLINE_WORKSPACE" >&2
    scontrol requeue "$SLURM_JOB_ID" || echo "longline: Slurm did not requeue the job" >&2
  else
    echo "longline: ended with status $status; to go on: sbatch FILE $base" >&2
  fi
fi
exit "$status"
