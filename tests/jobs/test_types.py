"""The type matrix through Spark: what the copy writes is what the source holds, byte for byte."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from jobs import full_copy
from migrate.chunks.chosen_tables import chosen_tables
from migrate.chunks.sessions import Sessions, forget
from migrate.model.chunk import Chunk
from migrate.model.table import Kind
from migrate.state import database
from migrate.target.routing import PlannedTable
from migrate.verify.checksum import forms, source_total, target_total
from migrate.verify.chunk_check import CheckJob, compare_chunk
from sandbox.broker import KafkaBroker
from sandbox.stack import Sandbox
from tests.copy.setup import alike
from tests.types.outcome import names, work_through
from tests.types.ways import Ways, machine_zone

pytestmark = pytest.mark.timeout(600)
EVERYTHING = Chunk(0, None, None)


def equal_at_first(sessions: Sessions, planned: PlannedTable) -> bool:
    """In the form that is tried first; a document with a DECIMAL is equal in the second one (docs/decisions/0024)."""
    form, *_ = forms(planned.table, sessions.flavours([planned]), json_types=False)
    there, _ = target_total(sessions.targets, planned, EVERYTHING, form)
    return there == source_total(sessions.source, [planned], EVERYTHING, form)[0]


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
            for json_types in (False, True):
                verify = ways.settings.verify.model_copy(update={"json_types": json_types})
                settings = ways.settings.model_copy(update={"verify": verify})
                looked = {one.table.name: compare_chunk(CheckJob(settings, (one,)), EVERYTHING) for one in planned}
                assert all(one.rows == one.target_rows > 0 for one in looked.values())
                assert {name: one.suspects.keys for name, one in looked.items() if one.suspects.keys} == {}
            forget()
            unequal = {one.table.name for one in planned if not equal_at_first(sessions, one)}
            assert unequal <= {one.table.name for one in planned if any(c.kind is Kind.JSON for c in one.table.columns)}

    outcome = work_through(box, kafka, tmp_path, by_spark)
    assert copied[0] > 0
    assert outcome.differences() == []
    assert outcome.ok
    assert len(names(outcome)) > 80
