"""Places by time in the binlogs of real servers; sessions set their clocks with `SET timestamp`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from migrate.model.errors import StopError
from migrate.mysql.connection import connect
from migrate.publish.log.locate import Located, Locator
from migrate.settings import Source
from sandbox.database import DatabaseServer
from sandbox.settings import Flavour
from tests.waiting import SLOW

ZERO = 1_700_000_000  # 2023-11-14 22:13:20 UTC


class History:
    """A server whose log is written by sessions with clocks of their own."""

    def __init__(self, server: DatabaseServer) -> None:
        self.server = server
        self.source = Source(
            name="main", host=server.host, port=server.port, user=server.user, password=server.password, server_id=4711
        )

    def begin(self, seconds: int) -> None:
        """A log of one new file, begun at that time."""
        mariadb = self.server.flavour is Flavour.MARIADB
        self.server.execute("RESET MASTER" if mariadb else "RESET BINARY LOGS AND GTIDS")
        self.flush(seconds)
        self.purge()

    def purge(self) -> None:
        """Leave the newest file only; MariaDB keeps the one before until its checkpoint, some moments later."""
        deadline = time.monotonic() + SLOW
        while len(self.server.query("SHOW BINARY LOGS")) > 1:
            assert time.monotonic() < deadline, "the old binlog files stay"
            self.server.execute(f"PURGE BINARY LOGS TO '{self.end()[0]}'")

    def flush(self, seconds: int) -> None:
        self.server.execute(f"SET timestamp = {ZERO + seconds}", "FLUSH BINARY LOGS")

    def write(self, *seconds: int) -> tuple[str, int]:
        """A transaction of one row for each time; returns where it began."""
        before = self.end()
        statements = [
            word
            for second in seconds
            for word in (f"SET timestamp = {ZERO + second}", f"INSERT INTO locate_test.t (at) VALUES ({second})")
        ]
        self.server.execute("BEGIN", *statements, "COMMIT")
        return self.next_start(before)

    def next_start(self, place: tuple[str, int]) -> tuple[str, int]:
        """Where the first transaction behind the place starts; MariaDB puts a checkpoint in between at times."""
        events = self.server.query(f"SHOW BINLOG EVENTS IN '{place[0]}' FROM {place[1]} LIMIT 5")
        return place[0], next(int(row[1]) for row in events if row[2] in ("Gtid", "Anonymous_Gtid"))

    def end(self) -> tuple[str, int]:
        word = "MASTER" if self.server.flavour is Flavour.MARIADB else "BINARY LOG"
        row = self.server.query(f"SHOW {word} STATUS")[0]
        return str(row[0]), int(row[1])

    def find(self, seconds: int) -> Located:
        with closing(connect(self.source, "source 'main'")) as connection:
            return Locator(self.source, 4711, connection).find(ZERO + seconds)

    def place(self, seconds: int) -> tuple[str, int]:
        found = self.find(seconds)
        return found.file, found.pos


@pytest.fixture(scope="module")
def server(flavour: Flavour, run_root: Path) -> Iterator[DatabaseServer]:
    """A server whose log may be thrown away."""
    own = DatabaseServer(flavour, run_root / f"locate-{flavour}", server_id=21)
    own.start()
    own.execute("CREATE DATABASE locate_test", "CREATE TABLE locate_test.t (id INT PRIMARY KEY AUTO_INCREMENT, at INT)")
    yield own
    own.kill()


@pytest.fixture
def history(server: DatabaseServer) -> History:
    made = History(server)
    made.begin(0)
    return made


def test_the_place_is_before_the_first_transaction_at_or_after_the_time(history: History) -> None:
    history.write(10)
    second = history.write(20)
    history.write(30)
    assert history.place(15) == second
    assert history.place(20) == second


def test_a_time_between_two_events_of_one_transaction_gives_the_transactions_start(history: History) -> None:
    history.write(10)
    long = history.write(20, 40)
    history.write(50)
    assert history.place(30) == long


def test_the_newest_file_begun_before_the_time_is_taken(history: History) -> None:
    history.write(10)
    history.flush(20)
    history.write(30)
    wanted = history.write(40)
    history.flush(50)
    history.write(60)
    assert history.place(35) == wanted


def test_a_file_without_a_transaction_before_the_time_sends_the_search_to_the_file_before(history: History) -> None:
    history.write(10)
    late = history.write(90)  # a clock ahead: in the file before, and still at or after the time
    history.flush(20)
    history.write(60)
    assert history.place(50) == late


def test_the_search_goes_on_into_later_files(history: History) -> None:
    history.write(10)
    history.write(20)
    history.flush(200)
    wanted = history.write(100)
    assert history.place(50) == wanted


def test_after_the_last_transaction_the_place_is_the_end_of_the_log(history: History) -> None:
    history.write(10)
    history.write(20)
    assert history.place(50) == history.end()


def test_a_transaction_with_an_older_time_after_a_newer_one_does_not_move_the_place(history: History) -> None:
    history.write(10)
    first = history.write(30)
    history.write(12)
    history.write(40)
    assert history.place(25) == first


def test_statements_outside_transactions_are_boundaries_too(history: History) -> None:
    history.write(10)
    before = history.end()
    history.server.execute(
        f"SET timestamp = {ZERO + 20}", "CREATE TABLE locate_test.u (id INT)", "DROP TABLE locate_test.u"
    )
    history.write(30)
    assert history.place(20) == history.next_start(before)


def test_a_log_that_does_not_reach_back_stops_and_names_its_oldest_time(history: History) -> None:
    history.flush(100)
    history.write(110)
    history.purge()
    with pytest.raises(StopError, match=r"2023-11-14 22:14:10 UTC is in its binlog; .* begins at 2023-11-14 22:15:00"):
        history.find(50)


def test_a_search_ends_while_the_server_goes_on_writing(history: History) -> None:
    """The end is the one read before; a search that followed the log would never come back."""
    history.write(10)
    with closing(connect(history.source, "source 'main'")) as connection:
        locator = Locator(history.source, 4711, connection)
        end = history.end()
        history.write(60)
        found = locator.find(ZERO + 50)
    assert (found.file, found.pos) == end


def test_where_a_clock_was_set_back_the_place_is_in_the_file_before(history: History) -> None:
    """Lost: what was committed since then, as the newest file begun before the time has one before it, and one after:
    the source's clock had been ahead when the last event was published."""
    history.begin(0)
    history.write(5)
    first = history.write(620)
    history.write(650)
    history.write(30)
    history.flush(300)
    history.write(310)
    history.write(700)
    assert history.place(600) == first
