"""What a chunk's booking asks for, of rows that were left out as others have their unique values."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate.copy.conflicts import have_refreshed
from migrate.model.coordinate import Coordinate
from migrate.model.message import REFRESH, REQUEUE, encode
from migrate.model.message_reader import decode, senders
from migrate.state import pending_markers, schema_history
from sandbox.stack import Sandbox
from tests.copy.setup import lay, one_place

CREATE = "CREATE TABLE {t} (id INT PRIMARY KEY, parent INT, UNIQUE (parent))"
CHILD = "CREATE TABLE `t` (\n  `id` int,\n  CONSTRAINT `up` FOREIGN KEY (`parent`) REFERENCES `p` (`id`){}\n) ENGINE"


@pytest.mark.parametrize(("rule", "asked"), [(" ON DELETE SET NULL ON UPDATE CASCADE", True), ("", False)])
def test_only_rows_that_a_foreign_key_may_have_changed_are_refreshed(
    box: Sandbox, tmp_path: Path, rule: str, asked: bool
) -> None:
    """Lost: a row whose own change is in no log: the copy left it to the stream. Of others each would be read twice."""
    laid = lay(box, tmp_path, CREATE, one_place("t"))
    table, name = laid.table.table, laid.settings.name
    keys = [(str(number),) for number in range(120)]
    with laid.state().begin() as connection:
        schema_history.add(connection, name, table, Coordinate(1, 2, 3, 0), CHILD.format(rule))
        have_refreshed(connection, name, table, [])
        assert pending_markers.every(connection, name) == []
        have_refreshed(connection, name, table, [*keys, *keys])
        waiting = pending_markers.every(connection, name)
        found = (
            [decode(text.encode(), "state", 0) for text in pending_markers.messages(connection, waiting).values()]
            if waiting
            else []
        )
    assert {one.table for one in waiting} == ({table.id} if asked else set())
    assert {one.type for one in found} == ({REFRESH} if asked else set())
    sent_by = {name for one in found for name in senders(encode(one))}
    assert sent_by == ({REQUEUE} if asked else set()), "else its own messages are told as lost at the broker"
    assert [row["id"] for one in found for row in one.data] == ([key for (key,) in keys] if asked else [])
    assert pending_markers.Generations(name).sent(laid.state().connect()) is not asked, "who drains waits for them"
