"""What the functional tests share."""

from tests.unit.stages.corpus.conftest import multihop  # noqa: F401
