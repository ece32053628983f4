# A workspace of this job's own, for a DVC workspace belongs to one host. It is a clone that appears
# whole or not at all; a job that is started again goes on in it. Results are shared by DVC's cache.
if [ ! -d "$LONGLINE_WORKSPACE/.git" ]; then
  mkdir -p -- "${LONGLINE_WORKSPACE%/*}" "$LONGLINE_CACHE"
  rm -rf -- "$LONGLINE_WORKSPACE.new"
  git clone --quiet -- "$LONGLINE_REPOSITORY" "$LONGLINE_WORKSPACE.new"
  if [ -n "$LONGLINE_REVISION" ]; then
    git -C "$LONGLINE_WORKSPACE.new" checkout --quiet --detach "$LONGLINE_REVISION"
  fi
  (cd -- "$LONGLINE_WORKSPACE.new" && dvc cache dir --local "$LONGLINE_CACHE")
  mv -- "$LONGLINE_WORKSPACE.new" "$LONGLINE_WORKSPACE"
fi
cd -- "$LONGLINE_WORKSPACE"
# DVC knows who holds a path by process id. What a killed job left behind may be the id of another
# process on this host, and would block the run; while no run holds the workspace it is void.
mkdir -p .longline
flock --nonblock .longline/run.lock rm -f .dvc/tmp/rwlock || :
