"""What flows share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.forked import Child


@pytest.fixture
def children() -> Iterator[list[Child]]:
    """Processes that a test starts and adds; they are killed at its end."""
    made: list[Child] = []
    yield made
    for child in made:
        child.kill()
