"""A verification that was stopped or killed goes on where it was, without a false alarm and without a miss."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from jobs import full_copy, verify
from jobs.verify import VerifyProgress, VerifyResult
from migrate.model.errors import ConfigError, OwnershipLost, PreflightError
from migrate.mysql.quoting import quote
from migrate.settings import parse
from migrate.state import reached, verification, verification_progress
from migrate.state.reached import LostMessages
from migrate.state.verification_progress import Progress
from migrate.verify.certificate import page
from migrate.verify.certificate_page import html_page
from migrate.verify.run import standing
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, spread
from tests.helpers import TABLE_WAITERS
from tests.jobs.commands import config_of, ended, held, run, started
from tests.waiting import until as wait

ROWS, MANY = 120, 240
CREATE = "CREATE TABLE {t} (id BIGINT PRIMARY KEY, v VARCHAR(50))"
NUMBERS = "WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < {rows}) SELECT n FROM seq"
FILL = f"INSERT INTO {{t}} SELECT n, CONCAT('v', n) FROM ({NUMBERS}) AS numbers"
pytestmark = pytest.mark.timeout(300)


@dataclass
class Two:
    """A migration of two tables, t and u, that are alike, with their copies."""

    laid: Laid
    raw: dict[str, Any]

    @property
    def name(self) -> str:
        return self.laid.settings.name

    def verify(self, *, anew: bool = False, only: list[str] | None = None, **changes: Any) -> VerifyResult:
        return verify.run(parse({**self.raw, **changes}, {}), only, anew=anew)

    def stopped(self, when: Callable[[VerifyProgress], bool] = lambda step: True, *, repair: bool = False) -> None:
        """A verification that ends early, with what its first waves told kept."""

        def stop(step: VerifyProgress) -> None:
            if when(step):
                raise _Stopped

        with pytest.raises(_Stopped):
            verify.run(parse(self.raw, {}), progress=stop, repair=repair)

    def do(self, number: int, statement: str, table: str = "t") -> None:
        """At the place of a row."""
        planned = self.laid.table
        home = planned.rule.route_many([[str(number)]])[0]
        with closing(self.laid.connect(home)) as connection:
            name = planned.places[home].table.replace("t_", f"{table}_")
            assert connection.execute(f"{statement.replace('{t}', quote(name))} WHERE id = {number}") == 1

    def at_source(self, number: int, statement: str) -> None:
        name = f"{quote(self.laid.source)}.t"
        self.laid.box.source.execute(f"{statement.replace('{t}', name)} WHERE id = {number}")

    def kept(self) -> list[Progress]:
        """What the state has of all runs of the migration."""
        with _state(self.laid) as connection:
            ids = connection.execute(sa.select(verification.table.c.id)).scalars().all()
            return [one for id_ in ids for one in verification_progress.load(connection, id_).values()]


class _Stopped(Exception):  # noqa: N818 - no fault
    pass


def _state(laid: Laid) -> sa.Connection:
    return laid.state().connect()


def named(result: VerifyResult) -> list[tuple[str, int]]:
    found = [(item.table.rpartition(".")[2], int(item.key[0])) for table in result.tables for item in table.named]
    return sorted(found)


@pytest.fixture
def two(request: pytest.FixtureRequest, box: Sandbox, tmp_path: Path, spark: object) -> Two:
    rows = getattr(request, "param", ROWS)
    check = {"master": "local[2]", "chunk_rows": 2, "rechecks": 1, "recheck_seconds": 0.1}
    extra = {"verify": check, "lease": {"seconds": 2}}
    laid = lay(box, tmp_path, CREATE, spread("id", "t"), fill=[FILL.replace("{rows}", str(rows))], extra=extra)
    assert full_copy.run(laid.settings).rows_inserted == rows
    box.source.execute("CREATE TABLE u LIKE t", "INSERT INTO u SELECT * FROM t WHERE id <= 40", database=laid.source)
    for index, place in enumerate(laid.table.places):
        with closing(laid.connect(index)) as connection:
            other, name = quote(place.table.replace("t_", "u_")), quote(place.table)
            connection.execute(f"CREATE TABLE {other} LIKE {name}")
            connection.execute(f"INSERT INTO {other} SELECT * FROM {name} WHERE id <= 40")
    with laid.state().begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO schema_history"
            " (migration, source, table_schema, table_name, incarnation, file_no, tx, definition)"
            " SELECT migration, source, table_schema, 'u', 0, 0, 0, definition FROM schema_history"
            " WHERE migration = %s",
            (laid.settings.name,),
        )
    tables = [{"name": f"{laid.source}.{name}", "sharding": spread("id", name)} for name in ("t", "u")]
    return Two(laid, {**laid.raw, "tables": tables})


@pytest.mark.parametrize("two", [MANY], indirect=True)
def test_a_killed_process_is_gone_on_with_and_a_running_one_is_left_alone(two: Two, tmp_path: Path) -> None:
    lost, changed = "DELETE FROM {t}", "UPDATE {t} SET v = 'other'"
    two.do(2, lost)
    two.do(MANY - 1, changed)
    process = started(config_of(two.laid, tmp_path, tables=two.raw["tables"]), "verify")
    wait(lambda: two.kept() or process.poll() is not None, "progress that is kept")
    with held(two.laid, process, 1):
        with pytest.raises(PreflightError, match=r"is running .*--anew"):
            two.verify()
        process.kill()
        process.communicate()
    (before,) = two.kept()
    assert not before.done
    assert 16 <= before.body["chunks_done"] < MANY // 2
    two.do(4, changed)
    two.at_source(4, changed)  # equal on both sides, in a chunk that was compared
    two.do(MANY - 10, changed)
    two.at_source(MANY - 10, changed)  # and in one that was not
    two.do(MANY - 20, lost)
    two.do(8, lost)  # behind the comparison of its chunk, which is not made again
    steps: list[VerifyProgress] = []
    with capture_logs() as logs:
        result = verify.run(parse(two.raw, {}), progress=steps.append)
    assert named(result) == [("t", 2), ("t", MANY - 20), ("t", MANY - 1)]
    assert f"resumes verification {result.verification}: {before.body['rows']} rows compared before" in [
        line["event"] for line in logs
    ]
    assert (result.rows, result.rows_before) == (MANY + 40, before.body["rows"])
    assert steps[0].chunks_done > before.body["chunks_done"]
    assert [table.chunks for table in result.tables] == [MANY // 2 + 1, 21]
    assert result.certificate["resumed"] == 1
    assert "resumed   1 time" in page(result.certificate)
    assert "Resumed 1 time" in html_page(result.certificate)
    assert two.kept() == []
    with _state(two.laid) as connection:
        run = verification.latest(connection, two.name)
        assert run is not None
        assert run.id == result.verification
        assert result.certificate["started"].startswith(run.started.isoformat(timespec="milliseconds"))
        assert verification.certificate(connection, run.id) == result.certificate
    whole = two.verify()
    assert (named(whole), whole.certificate["resumed"]) == ([("t", 2), ("t", 8), ("t", MANY - 20), ("t", MANY - 1)], 0)
    assert "resumed   " not in page(whole.certificate)


def test_a_finished_table_is_not_read_again(two: Two) -> None:
    two.stopped(lambda step: step.table.endswith(".u"))
    assert sorted(one.done for one in two.kept()) == [False, True]
    two.do(60, "DELETE FROM {t}")
    again = two.verify()
    assert (again.clean, again.rows, again.certificate["resumed"]) == (True, ROWS + 40, 1)
    assert again.rows_before >= ROWS
    assert named(two.verify()) == [("t", 60)]


def test_a_finished_tables_differences_are_in_the_certificate(two: Two) -> None:
    two.do(7, "UPDATE {t} SET v = 'other'")
    two.stopped(lambda step: step.table.endswith(".u"))
    again = two.verify()
    assert (named(again), again.tables[0].named[0].kind, again.total) == ([("t", 7)], "different", 1)
    assert again.certificate["tables"][0]["named"][0]["key"] == ["7"]


def test_what_was_compared_for_another_purpose_is_not_used(two: Two) -> None:
    """Each time a row is lost behind the comparison of its chunk: who begins anew finds it."""
    check = two.raw["verify"]
    only_t = [f"{two.laid.source}.t"]

    def after_another_copy() -> VerifyResult:
        with two.laid.state().begin() as connection:
            connection.exec_driver_sql("UPDATE phase SET attempt = attempt + 1 WHERE table_name = 't'")
        return two.verify()

    def after_a_rewind() -> VerifyResult:
        with two.laid.state().begin() as connection:
            connection.exec_driver_sql("UPDATE position SET incarnation = incarnation + 1")
        return two.verify()

    def after_a_loss() -> VerifyResult:
        with two.laid.state().begin() as connection:
            reached.note_lost(connection, two.name, LostMessages(("t0", "d"), "changes [0]", 1, 9, 1))
        return two.verify()

    ways: list[tuple[str, Callable[[], VerifyResult]]] = [
        ("", lambda: two.verify(anew=True)),
        ("other tables", lambda: two.verify(only=only_t)),
        ("rule, columns or copy", after_another_copy),
        ("verify.json_types", lambda: two.verify(verify={**check, "json_types": True})),
        ("another server", after_a_rewind),
        ("lost what it had", after_a_loss),
        ("--repair", two.verify),
    ]
    for reason, way in ways:
        two.stopped(repair=reason == "--repair")
        two.do(3, "DELETE FROM {t}")
        with capture_logs() as logs:
            result = way()
        assert (named(result), result.certificate["resumed"]) == ([("t", 3)], 0), reason
        said = [line["reason"] for line in logs if line["event"] == "a new verification begins"]
        assert [reason in one for one in said] == ([True] if reason else []), said
        assert two.kept() == [], "of a run that nobody goes on with"
        home = two.laid.table.rule.route_many([["3"]])[0]
        with closing(two.laid.connect(home)) as connection:
            connection.execute(f"INSERT INTO {quote(two.laid.table.places[home].table)} VALUES (3, 'v3')")


def test_a_table_with_another_rule_than_the_migration_began_with_is_refused(two: Two) -> None:
    narrow = [{**two.raw["tables"][0], "rows": [{"column": "id", "at_least": 0}]}, two.raw["tables"][1]]
    with pytest.raises(
        ConfigError, match=rf"^{two.laid.source}\.t: columns, key, sharding rule, places or group changed"
    ):
        two.verify(tables=narrow)


def test_what_is_lost_while_rows_are_compared_has_the_next_run_begin_anew(two: Two) -> None:
    """The refused run was gone on with, and refused again each time, for the same loss."""

    def lose(step: VerifyProgress) -> None:
        with two.laid.state().begin() as connection:
            reached.note_lost(connection, two.name, LostMessages(("t0", "d"), "changes [0]", 1, 9, 1))

    with pytest.raises(PreflightError, match=r"nothing is certified: meanwhile t0/d lost what it had of changes \[0\]"):
        verify.run(parse(two.raw, {}), progress=lose)
    again = two.verify()
    assert (again.clean, again.certificate["resumed"]) == (True, 0)


def test_a_process_that_another_one_took_over_from_writes_no_certificate(two: Two) -> None:
    """As one that was frozen for longer than the lease."""
    taken: list[bool] = []

    def take(step: VerifyProgress) -> None:
        if not taken:
            with two.laid.state().begin() as connection:
                found = verification_progress.newest(connection, two.name, 2)
                assert found is not None
                taken.append(verification_progress.take(connection, found))

    with pytest.raises(OwnershipLost, match="another `migrate verify` took verification"):
        verify.run(parse(two.raw, {}), progress=take)
    assert taken == [True]
    with _state(two.laid) as connection:
        assert verification.latest(connection, two.name) is None


def test_a_run_is_heard_of_while_the_state_breaks_connections_and_not_after(two: Two) -> None:
    settings, state = two.laid.settings, two.laid.state()

    def touched() -> object:
        with state.connect() as connection:
            found = verification_progress.newest(connection, two.name, 2)
            return found and found.touched

    def changed(seen: object) -> bool:
        return touched() != seen

    with standing(settings, state, [[two.laid.table]], repair=False, anew=False):
        for _ in range(2):
            before = touched()
            wait(partial(changed, before), "the next touch")
            state.dispose()
            server = two.laid.box.targets[0]
            of_state = f"FROM information_schema.PROCESSLIST WHERE DB = '{settings.state.database}'"
            for (id_,) in server.query(f"SELECT ID {of_state}"):
                with suppress(pymysql.MySQLError):  # ours may have ended by now
                    server.execute(f"KILL {id_}")
    assert touched() is None
    state.dispose()


def test_a_start_of_spark_that_fails_and_ctrl_c_wait_for_no_server(two: Two, tmp_path: Path) -> None:
    """The first chunks are planned beside it; a lock at the source holds that up."""
    config = config_of(two.laid, tmp_path, tables=two.raw["tables"])
    command = [sys.executable, "-m", "migrate", "--config", str(config), "verify"]
    with closing(two.laid.box.source.connect(two.laid.source)) as session, session.cursor() as cursor:
        cursor.execute("LOCK TABLES t WRITE, u WRITE")
        process = run(command, tmp_path)

        def waits() -> bool:  # asked of the first process here: a server does not see at once that a client is gone
            return two.laid.box.source.query(TABLE_WAITERS)[0][0] > 0 or process.poll() is not None

        wait(waits, "the planning to wait for the lock")
        process.send_signal(signal.SIGINT)
        told = ended(process, code=130)
        assert told.splitlines()[-1] == "migrate: ended by Ctrl-C"
        assert "Traceback" not in told
        told = ended(run(command, tmp_path, {**os.environ, "JAVA_HOME": str(tmp_path / "nowhere")}), code=3)
        assert "Spark did not start: " in told
    assert two.verify().clean
