"""What a throttle makes of real servers' load, and of what is asked for; without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from math import inf
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from structlog.testing import capture_logs

from migrate.copy.governor import Governor
from migrate.copy.load_sampler import LoadSampler
from migrate.copy.throttle import Limits, LoadReading, Pace, Signal
from migrate.ddl import load
from migrate.ddl.servers import of_settings
from migrate.settings import parse
from migrate.state import throttle
from migrate.state.switch import Side
from sandbox.replication import follow, pair, wait_until_applied
from sandbox.settings import Flavour
from sandbox.stack import Sandbox
from tests.copy.setup import Laid, lay, spread
from tests.helpers import address, sleeping
from tests.waiting import until

CREATE = "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(200))"


def layout(box: Sandbox, tmp_path: Path, **throttled: Any) -> Laid:
    copy = {"chunks_at_once": 4, "throttle": throttled}
    fill = ["INSERT INTO {t} VALUES (1, 'x')"]
    return lay(box, tmp_path, CREATE, spread("id", "t"), fill=fill, extra={"copy": copy})


class Clock:
    """A clock that goes a second on whenever the governor is asked."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def governed(laid: Laid) -> Iterator[tuple[Governor, Callable[[], int]]]:
    """A governor, and a second later its next wave."""
    state, clock = laid.state(), Clock()
    governor = Governor(laid.settings, laid.table, state, clock=clock)

    def next_wave() -> int:
        clock.now += 1.01
        return governor.next_wave()

    try:
        yield governor, next_wave
    finally:
        governor.close()
        state.dispose()


@pytest.mark.parametrize("which", ["source", "target"])
def test_busy_threads_slow_and_hold_and_a_quiet_server_frees(box: Sandbox, tmp_path: Path, which: str) -> None:
    laid = layout(box, tmp_path, max_threads_running=20)
    server, name = (box.source, "source 'main'") if which == "source" else (box.targets[1], "target 't1'")
    with governed(laid) as (governor, next_wave):
        assert (next_wave(), governor.pace, governor.one_wave) == (4, Pace.FULL, False)
        with sleeping(server, 25):
            assert [next_wave() for _ in range(3)] == [2, 1, 1]
            assert (governor.pace, governor.one_wave) == (Pace.SLOWED, True)
            assert governor.reason.startswith(f"{name}: 2")
            assert governor.reason.endswith(" threads running, limit 20")
            with sleeping(server, 25):
                assert (next_wave(), governor.pace) == (0, Pace.HELD)
        with capture_logs() as logs:
            assert [next_wave() for _ in range(3)] == [1, 2, 4]
        assert (governor.pace, governor.reason) == (Pace.FULL, "")
    assert [entry["event"] for entry in logs] == ["the copy is slowed"] * 2 + ["the copy goes on at full pace"]


def test_it_looks_at_most_once_a_second(box: Sandbox, tmp_path: Path) -> None:
    laid = layout(box, tmp_path)
    with governed(laid) as (governor, next_wave):
        assert next_wave() == 4
        state = laid.state()
        with state.begin() as connection:
            throttle.put(connection, laid.settings.name, {"paused": True})
        state.dispose()
        assert not governor.look()
        assert governor.next_wave() == 4
        assert next_wave() == 0


def test_a_pause_ends_at_the_pace_of_before(box: Sandbox, tmp_path: Path) -> None:
    laid = layout(box, tmp_path)
    state = laid.state()

    def put(**changes: Any) -> None:
        with state.begin() as connection:
            throttle.put(connection, laid.settings.name, changes)

    with governed(laid) as (governor, next_wave):
        assert next_wave() == 4
        put(paused=True)
        assert (next_wave(), governor.pace) == (0, Pace.PAUSED)
        put(paused=False, chunks=3)
        assert (next_wave(), governor.pace) == (3, Pace.FULL)
        with state.begin() as connection:
            throttle.forget(connection, laid.settings.name)
        assert next_wave() == 4
    state.dispose()


def test_rows_per_second_hold_the_next_wave_back(box: Sandbox, tmp_path: Path) -> None:
    laid = layout(box, tmp_path, rows_per_second=1000)
    with governed(laid) as (governor, next_wave):
        assert (next_wave(), governor.most_rows) == (4, 1250)
        governor.note(2500)
        assert [next_wave() for _ in range(4)] == [0, 0, 4, 4]
        assert (governor.pace, governor.one_wave) == (Pace.SLOWED, True)
        assert governor.reason == "at most 1,000 rows per second"
        assert 400 < governor.rate() < 2500


def test_a_long_history_at_the_source_holds(box: Sandbox, tmp_path: Path) -> None:
    """An old view keeps the undo of every update; once it ends, the server purges it."""
    laid = layout(box, tmp_path, max_history_length=200)
    writer = box.source.connect(database=laid.source, autocommit=True)
    with box.source.connect() as old, old.cursor() as view, writer, writer.cursor() as cursor:
        view.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        for number in range(1000):
            cursor.execute("UPDATE t SET v = %s WHERE id = 1", (str(number),))
        with governed(laid) as (governor, next_wave):
            until(lambda: next_wave() == 0)
            assert governor.reason.startswith("source 'main': ")
            assert " history list length, limit 200; `migrate throttle --max-history-length N`" in governor.reason
            old.rollback()

            def goes_on() -> bool:
                cursor.execute("UPDATE t SET v = REVERSE(v) WHERE id = 1")
                return next_wave() > 0

            until(goes_on)


def held_back(laid: Laid, limit: float = 10) -> str:
    """What a statement of DDL over shards would wait for now; "" for nothing."""
    said, stop = list[str](), Event()

    def say(line: str) -> None:
        said.append(line)
        stop.set()

    servers = of_settings(laid.settings)
    with servers.session(Side.TARGET, "t0") as session:
        assert load.wait(servers, session, 0, limit, stop, say) == (not said)
    return "".join(said)


def test_a_late_replica_holds_until_it_has_caught_up(box: Sandbox, tmp_path: Path, run_root: Path) -> None:
    primary, replica = pair(box.flavour, run_root / f"throttle-{box.flavour}")
    word = "SLAVE" if box.flavour is Flavour.MARIADB else "REPLICA"
    try:
        for server in (primary, replica):
            server.password = primary.password
            server.start()
        laid = layout(box, tmp_path, replicas=[address(replica)])
        where = f"replica {replica.host}:{replica.port}"
        with governed(laid) as (governor, next_wave):
            assert next_wave() == 0
            assert held_back(laid) == f"waiting: {where} does not replicate"
            assert governor.reason.startswith(
                f"{where}: it is no replica, limit 10; `migrate throttle --max-replica-lag"
            )
            follow(replica, primary)
            wait_until_applied(replica, primary)
            until(lambda: next_wave() == 4)
            assert held_back(laid) == ""
            primary.execute("CREATE DATABASE late", "CREATE TABLE late.t (id INT PRIMARY KEY)")
            wait_until_applied(replica, primary)
            with replica.connect() as holder, holder.cursor() as cursor:
                cursor.execute("LOCK TABLES late.t READ")
                primary.execute("INSERT INTO late.t VALUES (1)")
                until(lambda: held_back(laid, 1) == f"waiting: {where} is more than 1 s late")
                assert held_back(laid) == "", "of 10 s"
            until(lambda: held_back(laid, 1) == "")
            replica.execute(f"STOP {word} SQL_THREAD")
            assert held_back(laid) == f"waiting: {where} does not replicate"
            assert (next_wave(), governor.pace) == (0, Pace.HELD)
            assert governor.reason.startswith(f"{where}: replication is stopped, limit 10; ")
            replica.execute(f"START {word} SQL_THREAD")
            until(lambda: next_wave() == 4)
            replica.kill()
            assert next_wave() == 0
            assert governor.reason.startswith(f"{where}: seconds of replica lag not known, ")
            assert held_back(laid).startswith(f"waiting: {where} does not answer: ")
            replica.start()
            replica.execute(f"START {word}")
            until(lambda: next_wave() == 4)
    finally:
        replica.kill()
        primary.kill()


def test_accounts_without_grants_see_the_threads(box: Sandbox, tmp_path: Path) -> None:
    """MySQL shows the history list to accounts with PROCESS; MariaDB to all."""
    laid = layout(box, tmp_path)
    box.source.execute("CREATE USER IF NOT EXISTS bare@'%' IDENTIFIED BY 'bare-and-long'")
    raw = dict(laid.raw)
    raw["sources"] = [{**raw["sources"][0], "user": "bare", "password": "bare-and-long"}]
    limits = Limits(4, max_threads_running=50, max_history_length=10**6)
    with closing(LoadSampler(parse(raw, {}), [laid.table])) as sampler, capture_logs() as logs:
        for _ in range(2):
            found = {one.signal: one.value for one in sampler.measure(limits) if one.server == "source 'main'"}
            assert (found[Signal.THREADS] or 0) >= 1
            assert (found[Signal.HISTORY] is None) == (box.flavour is Flavour.MYSQL)
    told = [entry["reason"] for entry in logs]
    assert told == (["the account lacks PROCESS"] if box.flavour is Flavour.MYSQL else [])
    box.source.execute("DROP USER bare@'%'")


def test_a_server_that_refuses_us_does_not_count_and_one_that_is_not_asked_for_is_not_asked(
    box: Sandbox, tmp_path: Path
) -> None:
    laid = layout(box, tmp_path)
    raw = dict(laid.raw)
    raw["sources"] = [{**raw["sources"][0], "password": "a-wrong-one"}]
    with closing(LoadSampler(parse(raw, {}), [laid.table])) as sampler:
        found = sampler.measure(Limits(4, max_threads_running=50))
        assert [(one.server, one.signal, one.value is None) for one in found] == [
            ("source 'main'", Signal.THREADS, True),
            ("target 't0'", Signal.THREADS, False),
            ("target 't1'", Signal.THREADS, False),
        ]
        assert "a-wrong-one" not in str(found)
        assert sampler.measure(Limits(4)) == []
    assert str(LoadReading("replica r:1", Signal.LAG, inf, "it is no replica")) == "replica r:1: it is no replica"
