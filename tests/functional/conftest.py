"""Fixtures of the functional tests that are defined beside what they give."""

from __future__ import annotations

from tests.functional.forks import forks
from tests.functional.prefect_api import api, prefect_server
from tests.functional.processes import nothing_goes_on
from tests.unit.stages.corpus.conftest import multihop

__all__ = ["api", "forks", "multihop", "nothing_goes_on", "prefect_server"]
