"""The type matrix through Spark: what the copy writes is what the source holds, byte for byte."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from jobs import full_copy
from migrate.scroll.sessions import Sessions
from migrate.scroll.tables import chosen_tables
from migrate.state import database
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.scroll.setup import alike
from tests.types.outcome import names, work_through
from tests.types.ways import Ways, machine_zone

pytestmark = pytest.mark.timeout(600)


@pytest.mark.usefixtures("spark")
def test_the_whole_matrix_arrives_byte_for_byte(box: Sandbox, kafka: KafkaBroker, tmp_path: Path) -> None:
    copied: list[int] = []

    def by_spark(ways: Ways) -> None:
        ways.empty()
        with machine_zone():
            done = full_copy.run(ways.settings)
        assert (done.rows_inserted, len(done.tables)) == (done.rows_read, len(ways.tables))
        copied.append(done.rows_inserted)
        with (
            closing(Sessions(ways.settings)) as sessions,
            database.opened(ways.settings.state) as state,
        ):
            planned = chosen_tables(ways.settings, state, None)
            assert [one.table.name for one in planned if not alike(sessions, one)] == []

    outcome = work_through(box, kafka, tmp_path, by_spark)
    assert copied[0] > 0
    assert outcome.differences() == []
    assert outcome.ok
    assert len(names(outcome)) > 80
