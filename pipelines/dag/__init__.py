"""The graph of `dvc.yaml` as frozen values, and what DVC would do with each of its stages.

`nodes` and `outlook` are values and pure functions; `project` is the one adapter to DVC's internals
(undocumented, so pinned and held by tests to what `dvc repro` does), `start_dvc` its command line.
"""
