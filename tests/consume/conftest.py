"""A state database, and migrations in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from migrate.settings import State
from migrate.state import database
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.consume.support import World
from tests.helpers import address, unique


@pytest.fixture(scope="module")
def state_settings(mariadb_box: Sandbox) -> State:
    settings = State(**address(mariadb_box.targets[0]), database=unique("state"))
    database.create(settings)
    return settings


@pytest.fixture(scope="module")
def state(state_settings: State) -> Iterator[sa.Engine]:
    engine = database.engine(state_settings)
    yield engine
    engine.dispose()


@pytest.fixture
def world(kafka: KafkaBroker, state_settings: State, state: sa.Engine) -> World:
    return World(kafka, state_settings, state)
