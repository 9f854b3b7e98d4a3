"""A side at which nobody could write is not entered, by what its servers say."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from migrate.cutover import entered_side
from migrate.cutover.left_server import LeftServer
from migrate.model.errors import PreflightError
from migrate.settings import Target
from migrate.state import cutover
from migrate.state.cutover import Block
from migrate.state.switch import Side
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.helpers import address, globally, unique


def of(server: DatabaseServer, name: str) -> LeftServer:
    return LeftServer(Target.model_validate({"name": name, **address(server)}), "target")


def test_a_server_that_is_read_only_is_entered_only_where_we_will_open_it(box: Sandbox, state: sa.Engine) -> None:
    name, servers = unique("entered"), [of(box.targets[0], "t0"), of(box.targets[1], "t1")]
    left = [of(box.source, "main")]

    def asked(stop: str = "read_only") -> None:
        entered_side.refuse_closed(state, name, Side.TARGET, servers, left, stop)

    asked()
    for variable in ("read_only",) if box.flavour == "mariadb" else ("read_only", "super_read_only"):
        with globally(box.targets[1], variable, 1), pytest.raises(PreflightError, match=f"'t1' has {variable} on"):
            asked("application")
    box.targets[1].execute("SET GLOBAL read_only = 0")  # as super_read_only has set it
    for block, opened in (
        (Block(Side.TARGET, "t0", "read_only", ()), False),
        (Block(Side.TARGET, "t1", "revoke", ()), False),
        (Block(Side.SOURCE, "t1", "read_only", ()), False),
        (Block(Side.TARGET, "hook", "hook", ()), True),
        (Block(Side.TARGET, "t1", "read_only", ()), True),
    ):
        with state.begin() as connection:
            cutover.note_block(connection, name, block)
        with globally(box.targets[1], "read_only", 1):
            if opened:
                asked()
            else:
                with pytest.raises(PreflightError, match="'t1' has read_only on"):
                    asked()
        with state.begin() as connection:
            cutover.drop_block(connection, name, block)


def test_a_server_that_is_left_and_entered_is_not_closed(box: Sandbox, state: sa.Engine) -> None:
    name, servers = unique("entered"), [of(box.targets[1], "t1"), of(box.source, "t2")]
    left = [of(box.source, "main")]
    left[0]._settings = left[0]._settings.model_copy(update={"host": "localhost"})  # another address of it
    with pytest.raises(PreflightError, match="'t2' is the same server as 'main'") as refused:
        entered_side.refuse_closed(state, name, Side.TARGET, servers, left, "read_only")
    assert "cutover.stop: revoke" in refused.value.hint
    entered_side.refuse_closed(state, name, Side.TARGET, servers, left, "revoke")
