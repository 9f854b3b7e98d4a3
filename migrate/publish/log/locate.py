"""A place in a server's binlog by time: where to go on after a failover without GTID.

Header timestamps are those of a statement's start, or whatever the session said (`SET timestamp`); they do not rise
with the log. So the place is before the *first* transaction at or after the wanted time, and a transaction before that
time has to stand in front of it; the clocks of two servers are never compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from migrate.model.coordinate import file_number, in_log
from migrate.model.errors import Code, StopError
from migrate.mysql.catalog import server_facts
from migrate.mysql.connection import Connection
from migrate.mysql.readable import log_end
from migrate.publish.log import binlog
from migrate.publish.log.binlog import BinlogReader, Event
from migrate.publish.log.logfiles import created
from migrate.publish.schema.statement import first_word, parse_query
from migrate.settings import Source

log = structlog.get_logger("migrate.publish")
_GROUP_STARTS = frozenset({binlog.GTID, binlog.ANONYMOUS_GTID, binlog.GTID_TAGGED, binlog.MARIADB_GTID})
_GROUP_ENDS = frozenset({binlog.XID, binlog.XA_PREPARE, binlog.TRANSACTION_PAYLOAD})
_IDLE = frozenset({binlog.HEARTBEAT, binlog.HEARTBEAT_V2})
_STANDALONE = 1  # MariaDB: a GTID whose event has no terminating commit
_HEARTBEAT_SECONDS = 1.0
FIRST_EVENT = 4  # behind the magic number


@dataclass(frozen=True, slots=True)
class Group:
    """One transaction, or one statement outside transactions, as it stands in the log."""

    file: str
    start: int
    end: int
    server_id: int  # of the server that first logged it
    oldest: int  # header timestamps of its events, seconds since 1970
    newest: int
    statement: bool = False  # not a transaction


@dataclass(slots=True)
class Groups:
    """Puts events together to groups; knows the boundary behind the last complete one."""

    file: str
    boundary: tuple[str, int] = ("", 0)
    _start: int | None = None
    _block: bool = False
    _times: list[int] = field(default_factory=list)

    def feed(self, event: Event) -> Group | None:
        """Take in one event; the group that it completes, if any."""
        if event.flags & binlog.FLAG_ARTIFICIAL or event.type in _IDLE or event.type == binlog.ROTATE:
            if event.type == binlog.ROTATE:
                self._rotate(event)
            return None
        if event.type in _GROUP_STARTS or (self._start is None and event.type == binlog.QUERY):
            self._start, self._times = event.end - event.size, []
            self._block = event.type == binlog.MARIADB_GTID and not event.body[12] & _STANDALONE
        if self._start is None:
            self.boundary = (self.file, max(event.end, FIRST_EVENT))
            return None
        if event.timestamp:
            self._times.append(event.timestamp)
        return self._close(event) if self._ends(event) else None

    def _rotate(self, event: Event) -> None:
        name = event.body[8:].decode("ascii")
        if name != self.file or not self.boundary[0]:
            self.file, self._start = name, None
            self.boundary = (name, int.from_bytes(event.body[:8], "little"))

    def _ends(self, event: Event) -> bool:
        if event.type in _GROUP_ENDS:
            return True
        if event.type not in (binlog.QUERY, binlog.QUERY_COMPRESSED):
            return False
        if event.type == binlog.QUERY_COMPRESSED:
            return not self._block
        sql = parse_query(event.body).sql
        word = first_word(sql)
        if word == "BEGIN" or sql.upper().startswith("XA START"):
            self._block = True
            return False
        if word in ("COMMIT", "ROLLBACK") and "TO" not in sql.upper().split():
            return True
        return not self._block

    def _close(self, event: Event) -> Group:
        start = self._start if self._start is not None else event.end - event.size
        times = self._times or [0]
        statement = not self._block and event.type in (binlog.QUERY, binlog.QUERY_COMPRESSED)
        self._start, self._block = None, False
        self.boundary = (self.file, event.end)
        return Group(self.file, start, event.end, event.server_id, min(times), max(times), statement)


@dataclass(slots=True)
class Search:
    """Judges groups in log order: where is the boundary before the first one at or after `wanted`? No I/O.

    `own`: the id of the server whose log this is, when another server wrote what we had before. Its own transactions
    at the log's end were written since the switch: the boundary is not behind them, whatever their timestamps say, and
    only a transaction of another server proves that the log reaches back far enough.
    `known`: the newest time that we had; the search is over once a later one of another server is met.
    `latest`: the time that it can be by now; a session dated a transaction above it (`SET timestamp`), or a clock was
    ahead, so that its time tells nothing.
    """

    wanted: int
    own: int | None = None
    known: int | None = None
    latest: int | None = None
    late: tuple[str, int] | None = None
    tail: tuple[str, int] | None = None
    tail_time: int = 0  # of its first transaction
    reached: int = 0  # newest time of what other servers wrote (without `own`: of all)
    proven: bool = False  # something older than wanted stands before the boundary
    early: list[tuple[tuple[str, int], int]] = field(default_factory=list)
    """(Place, time) of statements that are older than wanted."""

    def feed(self, group: Group) -> None:
        start = (group.file, group.start)
        if group.statement and group.newest < self.wanted:
            self.early.append((start, group.newest))
        own = group.server_id == self.own
        if own:
            self.tail, self.tail_time = (self.tail, self.tail_time) if self.tail else (start, group.oldest)
        else:
            self.tail = None
        if self.latest is not None and group.newest > self.latest:
            return
        if not own:
            self.reached = max(self.reached, group.newest)
        if self.late is None:
            if group.newest >= self.wanted:
                self.late = start
            elif not own:
                self.proven = True

    @property
    def over(self) -> bool:
        known = self.known is None or self.reached > self.known
        return self.late is not None and (self.tail is None or self.tail == self.late) and known

    def boundary(self, end: tuple[str, int]) -> tuple[str, int]:
        """The place, when the log was read up to `end`."""
        found = [place for place in (self.late, self.tail) if place is not None]
        return min(found, key=lambda place: in_log(*place)) if found else end

    def since(self, boundary: tuple[str, int]) -> int:
        """From when on there is something behind the boundary, seconds since 1970."""
        return min(self.wanted, self.tail_time) if boundary == self.tail else self.wanted

    def behind(self, boundary: tuple[str, int]) -> frozenset[int]:
        """The times of statements that are older than wanted and stand behind the boundary nonetheless."""
        return frozenset(time for place, time in self.early if time and in_log(*place) >= in_log(*boundary))


@dataclass(frozen=True, slots=True)
class Located:
    file: str
    pos: int
    reached: int  # newest time, seconds since 1970, that the log was seen to hold of other servers' transactions
    statements: frozenset[int] = frozenset()  # times older than wanted of statements behind the place
    since: int = 0  # from when on there is something behind the place


def log_files(connection: Connection) -> list[str]:
    """The server's binlog files, oldest first. Raises StopError when it writes none."""
    files = [str(row[0]) for row in connection.query("SHOW BINARY LOGS")]
    if not files:
        raise StopError(f"{connection.name} writes no binlog", hint="start it with log_bin", code=Code.POSITION)
    return files


class Locator:
    """Looks for a place in the log of the server behind `connection`."""

    def __init__(self, source: Source, replica_id: int, connection: Connection) -> None:
        self._source = source
        self._replica_id = replica_id
        self._connection = connection
        facts = server_facts(connection)
        self._server = facts.server_id, facts.uuid
        end = log_end(connection)
        self._end = in_log(end.file, end.pos)  # the search ends here, however much is written meanwhile
        self._files = log_files(connection)

    def find(
        self, wanted: int, *, own: int | None = None, known: int | None = None, latest: int | None = None
    ) -> Located:
        """The boundary before the first transaction at or after `wanted` (seconds since 1970).

        Where the file before has one as well, a clock was set back between them: it is looked for from there on.

        Args: `own`, `known` and `latest` as `Search` has them.
        Raises: StopError, naming the oldest time there is, when the log does not reach back far enough; ServerError.
        """
        oldest = 0
        for number in reversed(range(len(self._files))):
            name = self._files[number]
            oldest = created(self._source, self._replica_id, name)
            if oldest >= wanted:
                continue
            search = Search(wanted, own, known, latest)
            groups = Groups(name)
            with self._events(name) as events:
                for event in events:
                    group = groups.feed(event)
                    if group is not None:
                        search.feed(group)
                        if search.over:
                            break
                    if self._is_end(groups.file, event):
                        break
            if not search.proven and (own is not None or number):
                continue
            if number and self._has_later(self._files[number - 1], Search(wanted, own, None, latest)):
                continue
            file, pos = boundary = search.boundary(groups.boundary)
            log.info("located by time", source=self._source.name, wanted=_time(wanted), file=file, pos=pos)
            return Located(file, pos, search.reached, search.behind(boundary), search.since(boundary))
        raise StopError(
            f"{self._connection.name}: no transaction boundary before {_time(wanted)} is in its binlog; the oldest"
            f" file, {self._files[0]}, begins at {_time(oldest)}",
            hint="take a server whose binlog reaches back further, or start a new migration and copy again",
            code=Code.POSITION,
        )

    def _has_later(self, name: str, search: Search) -> bool:
        """Whether a file has a transaction at or after the wanted time."""
        groups = Groups(name)
        with self._events(name) as events:
            for event in events:
                if (group := groups.feed(event)) is not None and group.file == name and group.server_id != search.own:
                    search.feed(group)
                if search.late is not None:
                    return True
                if groups.file != name or self._is_end(groups.file, event):
                    return False
        return False

    @contextmanager
    def _events(self, name: str) -> Iterator[Iterator[Event]]:
        reader = BinlogReader(
            self._source, self._replica_id, _HEARTBEAT_SECONDS, name, FIRST_EVENT, server=self._server
        )
        with closing(reader):
            reader.open()
            yield reader.events()

    def _is_end(self, file: str, event: Event) -> bool:
        number = file_number(file)
        if event.type in _IDLE:  # the server has nothing more to send
            return number >= self._end[0]
        if event.flags & binlog.FLAG_ARTIFICIAL or event.type == binlog.ROTATE:  # in the file before
            return number > self._end[0]
        return (number, event.end) >= self._end


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
