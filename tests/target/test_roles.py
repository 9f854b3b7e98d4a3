"""The role row: who may write in a database, and who waits for whom."""

from __future__ import annotations

import pymysql
import pytest

from migrate.model.errors import ServerError, StopError
from migrate.mysql.errors import LOCK_WAIT, number
from migrate.target import roles, write_context
from migrate.target.roles import NotStandby, Role
from tests.helpers import unique
from tests.target.conftest import TargetSide


@pytest.mark.parametrize("role", [Role.ACTIVE, Role.FROZEN])
def test_a_stream_is_refused_where_its_side_is_not_standby(side: TargetSide, migration: str, role: Role) -> None:
    with side.one.transaction():
        assert write_context.to_write(side.one, migration).role == (Role.STANDBY, 1)
    with side.one.transaction():
        roles.put(side.one, migration, role, 7)
    for ask in (write_context.to_write, roles.require_standby):
        with pytest.raises(NotStandby, match=f"is {role}: a stream writes only to a standby side") as refused:
            ask(side.one, migration)
        assert refused.value.held == (role, 7)
    with side.one.transaction():
        assert write_context.read(side.one, migration).role == (role, 7), "who writes no rows may ask"


def test_without_a_role_nothing_is_written_and_the_way_out_is_named(side: TargetSide) -> None:
    for ask in (write_context.to_write, roles.require_standby):
        with pytest.raises(StopError, match="has no role") as refused:
            ask(side.one, unique("m"))
        assert "`migrate init`" in refused.value.hint
    with pytest.raises(StopError) as refused:
        roles.require_standby(side.one, unique("m") + "-reverse")
    assert "`migrate --reverse init`" in refused.value.hint


def test_a_role_changes_only_when_no_transaction_of_the_stream_is_in_flight(side: TargetSide, migration: str) -> None:
    """Lost: a transaction that read its role before the switch could commit after it, over an application's write."""
    for read in (write_context.to_write, roles.require_standby):
        with side.one.transaction():
            read(side.one, migration)
            with pytest.raises(pymysql.MySQLError) as waited, side.two.transaction():
                roles.put(side.two, migration, Role.FROZEN, 2)
            assert number(waited.value) == LOCK_WAIT
    with side.two.transaction():
        roles.put(side.two, migration, Role.FROZEN, 2)
        roles.make(side.two, migration, Role.STANDBY, 3)  # there is one
    with side.one.transaction():
        assert roles.read(side.one, migration) == (Role.FROZEN, 2)


def test_a_process_that_was_suspended_sets_no_role_over_that_of_a_later_switch(
    side: TargetSide, migration: str
) -> None:
    """Lost: that a database lost its last switch, and with it the applications' last writes there: a frozen cutover
    went on after another one, and set the version of before."""
    with side.one.transaction():
        roles.put(side.one, migration, Role.STANDBY, 5)
    for database in ("", side.database):
        with pytest.raises(ServerError, match="version 5 of the switch, not to be set to 4"), side.two.transaction():
            roles.put(side.two, migration, Role.FROZEN, 4, database)
    with side.one.transaction():
        roles.put(side.one, migration, Role.FROZEN, 5)
        assert roles.read(side.one, migration) == (Role.FROZEN, 5)
