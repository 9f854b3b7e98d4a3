"""A state database of each module's own, on both servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from migrate.settings import State
from migrate.state import database
from sandbox.stack import Sandbox
from tests.helpers import address, unique


@pytest.fixture(scope="module")
def state_settings(box: Sandbox) -> Iterator[State]:
    settings = State(**address(box.targets[0]), database=unique("state"))
    yield settings
    box.targets[0].execute(f"DROP DATABASE IF EXISTS {settings.database}")


@pytest.fixture(scope="module")
def state(state_settings: State) -> Iterator[sa.Engine]:
    database.create(state_settings)
    engine = database.engine(state_settings)
    yield engine
    engine.dispose()
