"""Fixtures of the functional tests that are defined beside what they give."""

from __future__ import annotations

from tests.functional.dags import api, forks, nothing_goes_on, prefect_server
from tests.unit.stages.corpus.conftest import multihop

__all__ = ["api", "forks", "multihop", "nothing_goes_on", "prefect_server"]
