export LONGLINE_WORKSPACE="$LONGLINE_STORAGE/workspaces/$PREFECT__FLOW_RUN_ID"
export LONGLINE_CACHE="$LONGLINE_STORAGE/dvc-cache"
<% include "workspace.sh" %>

exec "$@"
