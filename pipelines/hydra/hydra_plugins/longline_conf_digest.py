"""Gives Hydra the resolver `${conf_digest:}`; DVC loads this folder through hydra.plugins_path.

Composition in `dvc exp run` and in `longline params compose` must give the same bytes, so both
load this file. The digest is of the `conf/` beside it: an experiment in a temporary workspace
sees that workspace's own.
"""

from __future__ import annotations

from pathlib import Path

from omegaconf import OmegaConf

from stages.runtime.digest import conf_digest

CONF = Path(__file__).resolve().parents[3] / "conf"

OmegaConf.register_new_resolver("conf_digest", lambda: conf_digest(CONF), replace=True)
