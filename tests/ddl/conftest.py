"""A state database of each module's own, on both servers, and shard tables of each test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from migrate.settings import State
from migrate.state import database
from sandbox.stack import Sandbox
from tests.ddl.support import Shards, shards
from tests.helpers import address, unique


@pytest.fixture(scope="module")
def state_settings(box: Sandbox) -> Iterator[State]:
    settings = State(**address(box.targets[0]), database=unique("state"))
    database.create(settings)
    yield settings
    box.targets[0].execute(f"DROP DATABASE IF EXISTS {settings.database}", f"DROP DATABASE IF EXISTS {settings.shadow}")


@pytest.fixture(scope="module")
def state(state_settings: State) -> Iterator[sa.Engine]:
    engine = database.engine(state_settings)
    yield engine
    engine.dispose()


@pytest.fixture
def made(box: Sandbox, state: sa.Engine, state_settings: State) -> Iterator[Shards]:
    with shards(box, state, state_settings) as found:
        yield found
