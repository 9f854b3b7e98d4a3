"""The full copy, end to end: Spark, a source, two targets with four databases of two tables each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from jobs import full_copy, verify
from jobs.full_copy import CopyProgress
from migrate.model.change import Key
from migrate.model.coordinate import Coordinate
from migrate.model.errors import ConfigError, StopError
from migrate.mysql.connection import connect
from migrate.mysql.quoting import quote
from migrate.mysql.values import selected
from migrate.state import chunks, phase
from migrate.state.chunks import ChunkState
from migrate.state.phase import Phase
from migrate.target import ledger
from sandbox.stack import Sandbox
from tests.copy import types
from tests.copy.setup import Laid, lay, one_place, spread
from tests.helpers import server_of

CREATE = "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(200))"
_ROOT = Path(__file__).resolve().parents[2]


def numbers(rows: int) -> list[str]:
    """Statements that fill ids 1 to `rows`, at most 500 each: MySQL ends a recursion at 1000."""
    fill = []
    for start in range(0, rows, 500):
        last = min(500, rows - start)
        seq = f"WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < {last})"
        fill.append(f"INSERT INTO {{t}} {seq} SELECT n + {start}, REPEAT(n, 20) FROM seq")
    return fill


def raw_rows(laid: Laid) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """Every row as the server's own bytes, at the source and over all places, by key."""
    table = laid.table.table
    fields = ", ".join(selected(column) for column in table.columns)
    source = connect(server_of(laid.box.source), "source", raw_results=True)
    here = source.query(f"SELECT {fields} FROM {quote(laid.source)}.{quote(table.name)}")
    source.close()
    there: list[tuple[object, ...]] = []
    for place in laid.table.places:
        target = connect(laid.settings.target(place.database.target), "target", raw_results=True)
        there += target.query(f"SELECT {fields} FROM {quote(place.database.database)}.{quote(place.table)}")
        target.close()
    return sorted(here, key=lambda row: str(row[0])), sorted(there, key=lambda row: str(row[0]))


@pytest.mark.usefixtures("spark")
def test_every_type_arrives_byte_for_byte(box: Sandbox, tmp_path: Path) -> None:
    flavour = box.source.flavour
    laid = lay(box, tmp_path, types.CREATE[flavour], spread("id", "t"), fill=types.fill(flavour, 5000))
    steps: list[CopyProgress] = []
    result = full_copy.run(laid.settings, progress=steps.append)
    assert (result.rows_read, result.rows_inserted) == (5007, 5007)
    here, there = raw_rows(laid)
    assert here == there
    for index, rows in enumerate(laid.target_rows("id").values()):
        assert {laid.table.rule.route_many([[str(row[0])]])[0] for row in rows} == {index}
    assert (steps[-1].rows_read, steps[-1].chunks_done) == (5007, 11)
    checked = verify.run(laid.settings)
    assert (checked.total, checked.rows, checked.clean) == (0, 5007, True)
    assert full_copy.run(laid.settings).tables[0].was_copied


@pytest.mark.usefixtures("spark")
def test_rows_that_are_there_stay_and_deleted_ones_are_taken_out(box: Sandbox, tmp_path: Path) -> None:
    """What the stream did before the copy came: row 5 is newer, row 6 was deleted, row 7 came again after a delete."""
    laid = lay(box, tmp_path, CREATE, spread("id", "t"), fill=numbers(20))
    table = laid.table.table
    for key, statement in ((5, "INSERT INTO {t} VALUES (5, 'newer')"), (7, "INSERT INTO {t} VALUES (7, 'again')")):
        place = laid.table.rule.route_many([[str(key)]])[0]
        laid.connect(place).execute(statement.replace("{t}", quote(laid.table.places[place].table)))
    place = laid.table.rule.route_many([["6"]])[0]
    connection, deleted = laid.connect(place), ("6",)
    (key_hash,) = ledger.key_hashes(connection, table, [deleted])
    entry: tuple[Key, bytes, Coordinate, bool] = (deleted, key_hash, Coordinate(1, 1, 4, 0), True)
    ledger.put(connection, laid.settings.name, table, laid.table.places[place].table, [entry])
    counts = full_copy.run(laid.settings).tables[0].counts
    assert (counts.rows_read, counts.rows_inserted, counts.rows_present, counts.taken_out) == (20, 17, 2, 1)
    rows = {row[0]: row[1] for found in laid.target_rows().values() for row in found}
    assert (rows[5], rows[7], 6 in rows, len(rows)) == ("newer", "again", False, 19)


@pytest.mark.usefixtures("spark")
def test_a_row_that_no_place_takes_stops_the_copy_and_names_the_table(box: Sandbox, tmp_path: Path) -> None:
    create = "CREATE TABLE {t} (id INT PRIMARY KEY, shard INT)"
    fill = ["INSERT INTO {t} VALUES (1, 1), (2, NULL), (3, 3)"]
    laid = lay(box, tmp_path, create, spread("shard", "t"), fill=fill)
    with pytest.raises(StopError, match=rf"{laid.source}\.t, chunk 0: "):
        full_copy.run(laid.settings)
    with laid.state().connect() as connection:
        assert phase.get(connection, laid.settings.name, laid.table.table).phase is Phase.COPYING


@pytest.mark.usefixtures("spark")
def test_an_unknown_table_is_refused_by_name(box: Sandbox, tmp_path: Path) -> None:
    laid = lay(box, tmp_path, CREATE, spread("id", "t"))
    with pytest.raises(ConfigError, match=r"there is no table named 'a\.b'"):
        full_copy.run(laid.settings, ["a.b"], starting=lambda: pytest.fail("Spark was to start"))


@pytest.mark.timeout(240)
def test_a_copy_killed_midway_goes_on_where_it_was(box: Sandbox, tmp_path: Path, spark: SparkSession) -> None:
    slow = {"copy": {"chunk_rows": 200, "chunks_at_once": 4, "master": "local[2]"}}
    laid = lay(box, tmp_path, CREATE, spread("id", "t"), fill=numbers(6_000), extra=slow)
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(dict(laid.raw)))
    command = [sys.executable, "-m", "jobs.full_copy", "--config", str(config)]
    driver = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        before = _wait_for_chunks(laid, driver, 4)
    finally:
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    assert before < 30, "the copy was done before it was killed"
    result = full_copy.run(laid.settings)
    assert result.rows_read < 6_000, "finished chunks were copied again"
    found = _details(laid)
    assert {chunk.state for chunk in found} == {ChunkState.DONE}
    assert {chunk.attempt for chunk in found} >= {1, 2}
    here, there = raw_rows(laid)
    assert here == there
    assert verify.run(laid.settings).total == 0


def _wait_for_chunks(laid: Laid, driver: subprocess.Popen[bytes], wanted: int) -> int:
    ends = time.monotonic() + 120
    while time.monotonic() < ends:
        done = sum(chunk.state is ChunkState.DONE for chunk in _details(laid))
        if done >= wanted:
            return done
        assert driver.poll() is None, "the copy ended early"
        time.sleep(0.05)
    raise AssertionError("no chunk was done in time")


def _details(laid: Laid) -> list[chunks.ChunkCopy]:
    state = laid.state()
    try:
        with state.connect() as connection:
            return chunks.load(connection, laid.settings.name, laid.table.table)
    finally:
        state.dispose()


@pytest.mark.usefixtures("spark")
def test_a_copy_survives_the_death_of_a_worker(box: Sandbox, tmp_path: Path) -> None:
    few = {"copy": {"chunk_rows": 200, "chunks_at_once": 3, "master": "local[2]"}}
    laid = lay(box, tmp_path, CREATE, spread("id", "t"), fill=numbers(4000), extra=few)
    killed: list[int] = []

    def kill_once(_step: CopyProgress) -> None:
        if not killed:
            killed.extend(_workers())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    result = full_copy.run(laid.settings, progress=kill_once)
    assert killed
    assert result.rows_read == 4000
    here, there = raw_rows(laid)
    assert here == there


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("which", ["source", "target"])
def test_a_copy_survives_the_death_of_a_server(box: Sandbox, tmp_path: Path, which: str) -> None:
    """Transactions in flight, commits without an answer, a result half read: each is a new attempt with a new read."""
    few = {"copy": {"chunk_rows": 200, "chunks_at_once": 3, "master": "local[2]"}}
    laid = lay(box, tmp_path, CREATE, spread("id", "t"), fill=numbers(4000), extra=few)
    server = box.source if which == "source" else box.targets[1]
    killed: list[int] = []

    def kill_once(step: CopyProgress) -> None:
        if not killed:
            killed.append(step.chunks_done)
            server.kill()
            server.start()

    result = full_copy.run(laid.settings, progress=kill_once)
    assert killed
    assert result.rows_read == 4000
    assert max(chunk.attempt for chunk in _details(laid)) > 1, "no chunk was under way when the server died"
    here, there = raw_rows(laid)
    assert here == there
    assert verify.run(laid.settings).clean


def _workers() -> list[int]:
    """Python workers of this process's session: children of the daemon, which is a child of the JVM."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # it ended meanwhile

    def children(above: set[int]) -> set[int]:
        return {pid for pid, parent in parents.items() if parent in above}

    jvms = {pid for pid in children({os.getpid()}) if Path(f"/proc/{pid}/comm").read_text().strip() == "java"}
    return sorted(children(children(jvms)))


def test_no_secret_is_on_the_command_line_or_in_sparks_settings(
    box: Sandbox, tmp_path: Path, spark: SparkSession
) -> None:
    laid = lay(box, tmp_path, CREATE, spread("id", "t"), fill=numbers(10))
    full_copy.run(laid.settings)
    secrets = {box.source.password, *(target.password for target in box.targets)}
    told = str(spark.sparkContext.getConf().getAll())
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            told += entry.read_bytes().decode(errors="replace")
        except OSError:
            continue  # it ended meanwhile
    assert not [secret for secret in secrets if secret in told]


@pytest.mark.usefixtures("spark")
def test_a_composite_text_key_in_one_place_is_copied_and_compared(box: Sandbox, tmp_path: Path) -> None:
    """Only the server knows the order and the equality of such keys."""
    create = "CREATE TABLE {t} (a VARCHAR(20) COLLATE utf8mb4_general_ci, b INT, v INT, PRIMARY KEY (a, b))"
    numbers = "WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 900)"
    fill = [f"INSERT INTO {{t}} {numbers} SELECT CONCAT(IF(n MOD 2, 'É', 'z'), n DIV 7), n, n FROM seq"]
    few = {"copy": {"chunk_rows": 100, "master": "local[2]"}, "verify": {"rechecks": 0, "chunk_rows": 100}}
    laid = lay(box, tmp_path, create, one_place("t"), fill=fill, extra=few)
    assert full_copy.run(laid.settings).rows_inserted == 900
    here, there = raw_rows(laid)
    assert here == there
    assert verify.run(laid.settings).clean
    target = laid.connect(0)
    target.execute("UPDATE t SET a = LOWER(a) WHERE b = 9")  # the same key to the server, other bytes
    target.execute("DELETE FROM t WHERE b = 900")
    found = {(item.key, item.kind.value) for item in verify.run(laid.settings).tables[0].named}
    assert found == {(("É1", "9"), "different"), (("z128", "900"), "missing")}
