"""The switch that applications read, and with which version of it databases were frozen."""

from __future__ import annotations

import sqlalchemy as sa

from migrate.state import switch
from tests.helpers import unique


def test_the_version_that_databases_were_frozen_with_never_falls(state: sa.Engine) -> None:
    """Lost: the notice of a database that lost its last switch: a process that hung noted an earlier one later."""
    name = unique("m")
    with state.begin() as connection:
        switch.make(connection, name)
        for version, highest in ((3, 3), (2, 3), (5, 5)):
            switch.note_frozen(connection, name, version)
            assert switch.frozen(connection, name) == highest
