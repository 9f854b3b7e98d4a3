"""Many small tables in many databases of one server: they share waves, transactions and sessions, and each is as exact
as one alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from jobs import full_copy, verify, verify_together
from jobs.verify import VerifyProgress
from jobs.verify_wave import run_wave
from migrate.commands.init import initialise
from migrate.copy.tables_copy import TablesCopy
from migrate.model.change import Key
from migrate.model.errors import OwnershipLost, ServerError, StopError
from migrate.mysql.catalog import server_facts
from migrate.mysql.connection import connect
from migrate.preflight import run as preflight
from migrate.settings import Settings, parse
from migrate.state import chunks, database, phase, position, verification_progress
from migrate.state.chunks import ChunkState
from migrate.state.phase import Phase
from migrate.target import chunk_fence
from migrate.target.fence import CHUNK_FENCE
from migrate.target.routing import PlannedTable
from migrate.verify.chunk_check import Checked
from migrate.verify.repair import Refresh
from migrate.verify.table_check import TableCheck
from sandbox.broker import KafkaBroker
from sandbox.database import DatabaseServer
from sandbox.stack import Sandbox
from tests.helpers import address, globally, raw_settings, server_of, unique

FEW, TABLES, ROWS = 6, 2, 5
ALLOWED = 151
"""Sessions, by the servers' own default."""
USED = 12
"""Sessions that every command stays below, whatever the number of databases."""


class Many:
    """Tables of five rows in each of some databases, each to a database of its own on one server."""

    def __init__(self, box: Sandbox, kafka: KafkaBroker, directory: Path, databases: int, each: int = TABLES) -> None:
        self.count, self.each = databases, each
        self.tables, self.all_rows = databases * each, databases * each * ROWS
        self.source, self.target, self.token = box.source, box.targets[0], unique("many")
        self.databases = [f"{self.token}_{number:02}" for number in range(self.count)]
        there = [f"{self.token}_t{number:02}" for number in range(databases)]
        places = {f"ds_{number}": {"target": "t0", "database": name} for number, name in enumerate(there)}
        tables = [
            {"name": f"{name}.*", "sharding": {"nodes": f"ds_{number}.{{table}}"}}
            for number, name in enumerate(self.databases)
        ]
        self.raw: dict[str, Any] = raw_settings(
            name=self.token,
            state={**address(self.target), "database": f"{self.token}_state"},
            sources=[{"name": "s", **address(self.source)}],
            targets=[{"name": "t0", **address(self.target)}],
            databases=places,
            kafka={"bootstrap": kafka.bootstrap},
            tables=tables,
            copy={"master": "local[2]", "chunks_at_once": 2},
            verify={"master": "local[2]", "rechecks": 1, "recheck_seconds": 0.1},
            connections={"per_server": 4},
            run_dir=str(directory),
        )
        values = ", ".join(f"({number}, 'row {number}')" for number in range(ROWS))
        with closing(self.source.connect()) as connection, connection.cursor() as cursor:
            for name in self.databases:
                cursor.execute(f"CREATE DATABASE {name}")
                for table in range(each):
                    cursor.execute(f"CREATE TABLE {name}.t_{table} (id INT PRIMARY KEY, v VARCHAR(20))")
                    cursor.execute(f"INSERT INTO {name}.t_{table} VALUES {values}")

    @property
    def settings(self) -> Settings:
        return parse(self.raw, {})

    def begin(self) -> None:
        """As if the publisher had stored where it starts."""
        with closing(connect(server_of(self.source), "source 's'")) as source:
            facts = server_facts(source)
        with self.state() as connection:
            begun = position.Position("s", "127.0.0.1", facts.server_id, facts.uuid, 2, 1, "binlog.000001", 4)
            position.save(connection, self.token, begun)

    def state(self) -> Any:
        return database.engine(self.settings.state).begin()

    def place(self, number: int, table: int = 0) -> str:
        return f"{self.token}_t{number:02}.t_{table}"

    def rows(self, number: int, table: int = 0) -> list[tuple[object, ...]]:
        return list(self.target.query(f"SELECT id, v FROM {self.place(number, table)} ORDER BY id"))

    def unequal(self) -> list[str]:
        """The tables whose places have other rows, by the server's own checksums."""
        names = [(number, table) for number in range(self.count) for table in range(self.each)]
        here = [f"{self.databases[number]}.t_{table}" for number, table in names]
        there = [self.place(number, table) for number, table in names]
        sums = [
            [row[1] for row in server.query(f"CHECKSUM TABLE {', '.join(some)}")]
            for server, some in ((self.source, here), (self.target, there))
        ]
        return [name for name, one, other in zip(here, *sums, strict=True) if one != other]

    def phases(self) -> set[tuple[Phase, int]]:
        """Each table's phase, and how many runs it took."""
        with self.state() as connection:
            rows = connection.execute(sa.select(phase.table.c.phase, phase.table.c.attempt)).all()
        return {(Phase(row[0]), int(row[1])) for row in rows}

    def open_fences(self) -> int:
        """Chunks and tables that a copy may still write, over all target databases."""
        counts = [
            f"SELECT COUNT(*) AS open FROM {self.token}_t{number:02}.{CHUNK_FENCE} WHERE closed = 0"
            for number in range(self.count)
        ]
        return int(self.target.query(f"SELECT SUM(open) FROM ({' UNION ALL '.join(counts)}) x")[0][0])

    def drop(self) -> None:
        drop(self.source, self.token)
        drop(self.target, self.token)


def drop(server: DatabaseServer, token: str) -> None:
    names = [str(row[0]) for row in server.query("SHOW DATABASES") if str(row[0]).startswith(token)]
    if names:
        server.execute(*(f"DROP DATABASE `{name}`" for name in names))


def status_of(server: DatabaseServer, name: str) -> int:
    return int(server.query(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])


@pytest.fixture
def many(box: Sandbox, kafka: KafkaBroker, tmp_path: Path, spark: object) -> Iterator[Many]:
    made = Many(box, kafka, tmp_path, FEW)
    try:
        initialise(made.settings)
        made.begin()
        yield made
    finally:
        made.drop()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("databases", "each"), [(20, 2), pytest.param(106, 1, marks=pytest.mark.long)])
def test_however_many_databases_are_migrated_over_few_sessions(
    box: Sandbox, kafka: KafkaBroker, tmp_path: Path, databases: int, each: int
) -> None:
    many = Many(box, kafka, tmp_path, databases, each)
    try:
        with globally(many.target, "max_connections", ALLOWED):
            before = status_of(many.target, "Threads_connected")
            many.target.execute("FLUSH STATUS")
            assert preflight.run(many.settings).problems == []
            initialise(many.settings)
            many.begin()
            copied = full_copy.run(many.settings)
            assert (len(copied.tables), copied.rows_inserted) == (many.tables, many.all_rows)
            assert (many.unequal(), many.phases(), many.open_fences()) == ([], {(Phase.COPIED, 1)}, 0)
            verified = verify.run(many.settings)
            assert (verified.clean, verified.rows, len(verified.tables)) == (True, many.all_rows, many.tables)
            assert status_of(many.target, "Max_used_connections") - before < USED
            assert all(table.was_copied for table in full_copy.run(many.settings).tables)
    finally:
        many.drop()


def test_a_row_changed_by_hand_is_named_among_all_tables(many: Many) -> None:
    full_copy.run(many.settings)
    many.target.execute(
        f"UPDATE {many.place(1, 1)} SET v = 'other' WHERE id = 3",
        f"DELETE FROM {many.place(4)} WHERE id = 4",
    )
    result = verify.run(many.settings)
    named = {(item.table, item.key, item.kind.value) for table in result.tables for item in table.named}
    assert named == {
        (f"{many.databases[1]}.t_1", ("3",), "different"),
        (f"{many.databases[4]}.t_0", ("4",), "missing"),
    }


def test_a_repair_shares_waves_too_and_asks_nobody_again_who_is_away(
    many: Many, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table had a Spark job of its own, whether it was as it should be or not; and each that differed its wait."""
    full_copy.run(many.settings)
    many.target.execute(*(f"DELETE FROM {many.place(number)} WHERE id = 4" for number in (1, 4)))
    waves, asked = [], []

    def away(_settings: Settings, _state: sa.Engine) -> Refresh:
        def refresh(planned: PlannedTable, keys: Sequence[Key]) -> None:
            asked.append((planned.table.database, *keys))
            raise ServerError("the broker is away")

        return refresh

    def counted(*arguments: Any) -> list[Checked]:
        waves.append(1)
        return run_wave(*arguments)

    monkeypatch.setattr(verify, "refresher", away)
    for module in (verify, verify_together):
        monkeypatch.setattr(module, "run_wave", counted)
    result = verify.run(many.settings, repair=True)
    assert len(waves) < many.tables
    assert asked == [(many.databases[1], ("4",))]
    assert {item.table for table in result.tables for item in table.named} == {
        f"{many.databases[number]}.t_0" for number in (1, 4)
    }
    with pytest.raises(ServerError, match="the broker is away"):
        result.raise_first()


def test_one_that_the_target_refuses_keeps_no_other_from_being_copied(many: Many) -> None:
    many.target.execute(f"ALTER TABLE {many.place(3)} MODIFY v VARCHAR(2)")
    with pytest.raises(StopError, match=rf"{many.databases[3]}\.t_0; {many.tables - 1} other tables are copied"):
        full_copy.run(many.settings)
    assert (many.unequal(), many.rows(3)) == ([f"{many.databases[3]}.t_0"], [])
    many.target.execute(f"ALTER TABLE {many.place(3)} MODIFY v VARCHAR(20)")
    full_copy.run(many.settings)
    assert (many.unequal(), many.open_fences()) == ([], 0)


class _Stopped(BaseException):  # as if the process had ended there
    pass


@pytest.mark.parametrize("where", ["wave", "settle", "finish", "ended"])
def test_a_copy_that_ended_halfway_goes_on_and_is_whole(
    many: Many, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its second step of a kind: chunks that were begun have a new attempt then, whoever still writes them."""
    monkeypatch.setattr("jobs.copy_together._TASK_CHUNKS", 1)
    steps = itertools.count(1)
    real = getattr(TablesCopy, where)

    def stop(copy: TablesCopy, *arguments: Any) -> Any:
        if next(steps) == 2:
            raise _Stopped
        return real(copy, *arguments)

    monkeypatch.setattr(TablesCopy, where, stop)
    with pytest.raises(_Stopped):
        full_copy.run(many.settings)
    monkeypatch.setattr(TablesCopy, where, real)
    assert many.open_fences()
    again = full_copy.run(many.settings)
    left = {table.table for table in again.tables if not table.was_copied}
    assert left
    assert (many.unequal(), many.open_fences()) == ([], 0)
    with many.state() as connection:
        states = connection.execute(sa.select(chunks.table.c.state)).scalars().all()
    assert states == [ChunkState.DONE.value] * many.tables


def test_a_defect_among_them_leaves_them_to_be_copied_alone(many: Many, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_copy: TablesCopy, *_arguments: Any) -> None:
        raise ValueError("no such thing")

    monkeypatch.setattr(TablesCopy, "settle", fail)
    assert len(full_copy.run(many.settings).tables) == many.tables
    assert (many.unequal(), many.open_fences(), many.phases()) == ([], 0, {(Phase.COPIED, 2)})


def test_a_copy_that_another_run_took_over_from_writes_nothing_more(
    many: Many, monkeypatch: pytest.MonkeyPatch
) -> None:
    wave = TablesCopy.wave

    def overtaken(copy: TablesCopy, *arguments: Any) -> Any:
        with many.state() as connection:
            named = {"database": many.databases[5]}
            later = "UPDATE phase SET attempt = 9 WHERE table_schema = :database AND table_name = 't_1'"
            connection.execute(sa.text(later), named)
        return wave(copy, *arguments)

    monkeypatch.setattr(TablesCopy, "wave", overtaken)
    with pytest.raises(OwnershipLost, match=rf"{many.databases[5]}\.t_1"):
        full_copy.run(many.settings)
    assert many.rows(5, 1) == []


def test_where_a_target_knows_a_later_run_than_the_state_the_copy_goes_above_it(many: Many) -> None:
    """Lost: the table, for ever superseded by a run that the state, put back to an earlier one, no longer knows."""
    statement = (
        f"INSERT INTO {many.token}_t05.{CHUNK_FENCE} (migration, source, table_schema, table_name, chunk, attempt)"
        " VALUES (%s, 's', %s, 't_1', %s, 9)"
    )
    with closing(many.target.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(statement, (many.token, many.databases[5], chunk_fence.WHOLE_TABLE))
    full_copy.run(many.settings)
    assert (many.unequal(), many.open_fences()) == ([], 0)
    assert many.phases() == {(Phase.COPIED, 1), (Phase.COPIED, 10)}


def test_a_verification_that_ended_halfway_goes_on_with_the_tables_that_are_left(
    many: Many, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.verify_together._TASK_CHUNKS", 2)
    full_copy.run(many.settings)
    steps: list[VerifyProgress] = []

    def stop(step: VerifyProgress) -> None:
        steps.append(step)
        raise _Stopped

    with pytest.raises(_Stopped):
        verify.run(many.settings, progress=stop)
    with many.state() as connection:
        number = connection.exec_driver_sql("SELECT MAX(id) FROM verification").scalar()
        done = [one for one in verification_progress.load(connection, number).values() if one.done]
    assert 0 < len(done) < many.tables
    result = verify.run(many.settings)
    assert (result.verification, result.clean, result.rows_before) == (number, True, len(done) * ROWS)
    assert len(result.tables) == many.tables


def test_a_verification_that_ended_while_it_looked_at_a_difference_again_names_it(
    many: Many, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All chunks of that table were compared, and the next run, and each one after it, ended by a KeyError."""
    full_copy.run(many.settings)
    places = [many.place(*divmod(number, TABLES)) for number in range(many.tables)]
    many.target.execute(*(f"UPDATE {place} SET v = 'other' WHERE id = 3" for place in places))
    real = TableCheck.finish

    def stop(_check: TableCheck, *_arguments: Any) -> Any:
        raise _Stopped

    monkeypatch.setattr(TableCheck, "finish", stop)
    with pytest.raises(_Stopped):
        verify.run(many.settings)
    monkeypatch.setattr(TableCheck, "finish", real)
    result = verify.run(many.settings)
    assert (result.certificate["resumed"], result.total) == (1, many.tables)
