"""Running stages: one process group a stage, bounded by resources, one run a workspace."""
