"""A state database with a migration and its switch, for `migrate web` alone: no source, topic or target is needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from migrate.settings import State
from migrate.state import database, switch
from migrate.state import migration as migrations
from sandbox.stack import Sandbox
from tests.helpers import address, unique
from tests.web.support import NAME, Ground


@pytest.fixture(scope="module")
def ground(mariadb_box: Sandbox) -> Iterator[Ground]:
    server = mariadb_box.targets[0]
    settings = State(**address(server), database=unique("web"))
    database.create(settings)
    with database.opened(settings) as state:
        with state.begin() as connection:
            migrations.create(connection, migrations.Migration(NAME, ()), "")
            switch.make(connection, NAME)
        yield Ground(server, settings, state)
    server.execute(f"DROP DATABASE {settings.database}", f"DROP DATABASE {settings.shadow}")


@pytest.fixture
def applications(ground: Ground) -> Iterator[list[tuple[str, int]]]:
    """Nobody has acknowledged; afterwards nobody has again."""
    yield []
    with ground.state.begin() as connection:
        connection.execute(sa.delete(switch.applications))
