"""What the scheduled check reads of the state."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from migrate.settings import Source
from migrate.state import chunks, database, phase, position
from migrate.state.position import Position
from migrate.verify import check_units
from migrate.verify.compare_range import Comparison
from tests.helpers import int_column, make_settings, plain_table, plan_of, unique
from tests.merge.test_groups import settings_of


def test_chunks_of_tables_that_are_compared_otherwise_are_not_waited_for(state: sa.Engine) -> None:
    name = unique("m")
    with state.begin() as connection:
        for table, chunk, checked in (("own", 0, database.now), ("own", 1, None), ("grouped", 0, None)):
            of = {"migration": name, "source": "main", "table_schema": "d", "table_name": table}
            done = {"chunk": chunk, "state": "done", "attempt": 1, "checked": checked}
            connection.execute(sa.insert(chunks.table).values({**of, **done}))
        assert chunks.unchecked(connection, name)[:2] == (3, 2)
        assert chunks.unchecked(connection, name, [("main", "d", "grouped"), ("other", "d", "own")])[:2] == (2, 1)


def test_tables_of_a_group_are_compared_while_their_columns_are_the_same(state: sa.Engine) -> None:
    """Between their statements the sums of the two sides are of other columns."""
    table, settings = plain_table(), settings_of({}, {}, name=unique("m"))
    added = replace(table, columns=(*table.columns, int_column("n")))
    with state.begin() as connection:
        for source in "sr":
            definition = replace(table, source=source)
            phase.put(connection, settings.name, definition, phase.TablePhase(phase.Phase.COPIED, 1, ""))
        for one, other, compared in ((table, table, 1), (added, table, 0), (added, added, 1)):
            plan = plan_of(one, replace(other, source="r"), settings=settings)
            assert len(check_units.begun(connection, plan)) == compared


def test_a_publisher_that_goes_to_another_server_meanwhile_is_seen(state: sa.Engine) -> None:
    (main,) = make_settings().sources
    source = Source.model_validate({**main.model_dump(), "addresses": ["10.0.0.2:3306"]})
    settings = make_settings(name=unique("m"), sources=(source,))
    at = Position(source.name, source.address, 1, "", 1, 4, "binlog.000012", 4000, "0-1-9")
    with state.begin() as connection:
        position.save(connection, settings.name, at)
    comparison = Comparison(settings, state)
    assert not comparison.moved()
    with state.begin() as connection:
        position.save(connection, settings.name, replace(at, address="10.0.0.2:3306"))
    assert comparison.moved()
    comparison = Comparison(settings, state)
    assert not comparison.moved()
    with state.begin() as connection:
        position.save(connection, settings.name, at)
    assert comparison.moved()
