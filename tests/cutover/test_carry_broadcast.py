"""`migrate foreign carry` of a broadcast table's row: at every node or at none. Costs 2 s on each flavour."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from migrate.commands import foreign_carry
from migrate.commands.foreign_carry import Carrier
from migrate.model.errors import ServerError, StopError
from migrate.state import switch
from migrate.state.switch import Side, Writes
from migrate.target.routing import PlannedTable
from migrate.verify.lookup import lock_digest
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay

CREATE = "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(20) NOT NULL UNIQUE)"
FILL = "INSERT INTO t VALUES (1, 'a'), (2, 'b')"
KEY = ("1",)


@pytest.fixture
def laid(box: Sandbox, tmp_path: Path) -> Laid:
    """Applications are at the nodes, and what somebody wrote at the source is to be carried there."""
    made = lay(box, tmp_path, CREATE, {"broadcast": "ds_${0..1}.t"}, fill=[FILL])
    for index in range(2):
        at_node(made, index, FILL)
    with made.state().begin() as connection:
        switch.put(connection, made.settings.name, Side.TARGET, Writes.OPEN)
    return made


def at_node(laid: Laid, index: int, *statements: str) -> None:
    with closing(laid.connect(index)) as connection:
        for statement in statements:
            connection.execute(statement)


def carried(laid: Laid, planned: PlannedTable) -> None:
    with closing(Carrier(laid.settings, laid.plan, laid.state())) as carrier:
        carrier.look([(planned, KEY)])
        carrier.carry([(planned, KEY)])


def test_a_row_that_one_node_refuses_is_written_at_none(laid: Laid) -> None:
    laid.box.source.execute("UPDATE t SET v = 'new' WHERE id = 1", database=laid.source)
    at_node(laid, 1, "INSERT INTO t VALUES (9, 'new')")
    with pytest.raises(StopError, match=r"the active side refuses a row of .*\.t \(error 1062\)"):
        carried(laid, laid.table)
    assert [rows[0] for rows in laid.target_rows().values()] == [(1, "a"), (1, "a")]
    at_node(laid, 1, "DELETE FROM t WHERE id = 9")
    carried(laid, laid.table)
    assert [rows[0] for rows in laid.target_rows().values()] == [(1, "new"), (1, "new")]


def test_a_row_that_one_node_would_not_have_deleted_is_deleted_at_none(laid: Laid) -> None:
    laid.box.source.execute("DELETE FROM t WHERE id = 1", database=laid.source)
    refers = "CREATE TABLE child (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES t (id))"
    at_node(laid, 1, refers, "INSERT INTO child VALUES (1, 1)")
    with pytest.raises(StopError, match=r"the active side refuses a row of .*\.t \(error 1451\)"):
        carried(laid, laid.table)
    assert [rows[0] for rows in laid.target_rows().values()] == [(1, "a"), (1, "a")]
    at_node(laid, 1, "DELETE FROM child")
    carried(laid, laid.table)
    assert list(laid.target_rows().values()) == [[(2, "b")], [(2, "b")]]


def test_a_commit_that_fails_names_the_nodes_that_have_the_row(laid: Laid, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second node's session is killed once everything is written, before anything is committed."""
    laid.box.source.execute("UPDATE t SET v = 'new' WHERE id = 1", database=laid.source)
    first, second = laid.table.places
    looked: list[str | None] = []

    def kill_the_last(connection: Any, planned: PlannedTable, place: int, *rest: Any) -> str | None:
        found = lock_digest(connection, planned, place, *rest)
        looked.append(found)
        if len(looked) == 4:  # at each node before the write, and behind it
            assert planned.places[place] == second
            with closing(laid.connect(place)) as other:
                other.execute(f"KILL {connection.id}")
        return found

    monkeypatch.setattr(foreign_carry, "lock_digest", kill_the_last)
    with pytest.raises(ServerError) as refused:
        carried(laid, laid.table)
    assert f"the row of {laid.source}.t is carried to {first} already, and may not be to {second}" in str(refused.value)
    assert "`migrate foreign carry` once more" in str(refused.value)
    assert [rows[0] for rows in laid.target_rows().values()] == [(1, "new"), (1, "a")]
    monkeypatch.undo()
    carried(laid, laid.table)
    assert [rows[0] for rows in laid.target_rows().values()] == [(1, "new"), (1, "new")]
