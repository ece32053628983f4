"""Real processes in real repositories. What these modules assert is told as tests tell it."""

import pytest

pytest.register_assert_rewrite(
    "tests.functional.grids", "tests.functional.planning", "tests.functional.processes"
)
