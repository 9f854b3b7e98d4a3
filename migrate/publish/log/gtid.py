"""Sets of global transaction ids, in the notations of MySQL and of MariaDB.

MySQL: intervals by UUID, `uuid:1-7:9-10`; from 8.3 on also by tag, `uuid:1-5:tag:1-3` (manual, "GTID Format and
Storage"). MariaDB: the last transaction of each domain, `domain-server-sequence` (knowledge base, "Global Transaction
ID"). Pure values; no server is asked here.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Protocol, Self

from migrate.model.errors import Code, StopError

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_INTERVAL = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_MARIADB = re.compile(r"([0-9]+)-([0-9]+)-([0-9]+)")
_LAST_NUMBER = 2**63 - 2


class GtidSet(Protocol):
    """What is read and delivered. `str()` gives the server's own notation."""

    def add(self, *gtids: str) -> None: ...
    def contains(self, gtid: str) -> bool: ...
    def within(self, other: GtidSet) -> bool:
        """Whether `other` has all of this."""
        ...

    def copy(self) -> Self: ...
    def __bool__(self) -> bool: ...


def parse(text: str, flavour: str) -> GtidSet:
    """A set as a server of that flavour ("mysql" or "mariadb") writes it. Raises StopError."""
    return MariadbGtids.parse(text) if flavour == "mariadb" else MysqlGtids.parse(text)


def flavour_of(text: str) -> str | None:
    """Whose notation a set is written in; None when it is neither's."""
    for flavour in ("mysql", "mariadb"):
        try:
            if parse(text, flavour):
                return flavour
        except StopError:
            continue
    return None


def compact(gtids: Iterable[str]) -> str:
    """Transactions of one source, or sets of them, as one text: of MySQL a set, of MariaDB the last transaction of each
    domain and server, as another server's `gtid_binlog_state` is held against them. Raises StopError."""
    last: dict[tuple[str, str], int] = {}
    mysql = MysqlGtids()
    for part in (part for text in gtids for part in "".join(text.split()).split(",") if part):
        if match := _MARIADB.fullmatch(part):
            last[match[1], match[2]] = max(int(match[3]), last.get((match[1], match[2]), 0))
        else:
            mysql._parse_part(part.lower(), part)
    return ",".join(
        [str(mysql)] * bool(mysql) + [f"{domain}-{server}-{last[domain, server]}" for domain, server in last]
    )


def missing(gtids: str, reached: str) -> str:
    """Of what `compact` gave, that which a set of the same source lacks: of MariaDB, what is above its domain's number.
    All of it where that is no set, as of a position by file. Raises StopError."""
    flavour = flavour_of(reached)
    if flavour is None:
        return gtids
    has = parse(reached, flavour)
    if isinstance(has, MysqlGtids):
        return str(MysqlGtids.parse(gtids).without(has))
    return ",".join(one for one in gtids.split(",") if one and not has.contains(one))


def _unreadable(text: str) -> StopError:
    return StopError(
        f"'{text[:100]}' is no GTID set of this source",
        hint="write it as the source shows it, or a file and position",
        code=Code.LOG,
    )


class MysqlGtids:
    """By `uuid` or `uuid:tag`: intervals, both ends included, ascending and never touching each other."""

    __slots__ = ("_intervals",)

    def __init__(self) -> None:
        self._intervals: dict[str, list[tuple[int, int]]] = {}

    @classmethod
    def parse(cls, text: str) -> Self:
        found = cls()
        for part in "".join(text.lower().split()).split(","):
            if part:
                found._parse_part(part, text)
        return found

    def _parse_part(self, part: str, text: str) -> None:
        uuid, *rest = part.split(":")
        if not _UUID.fullmatch(uuid) or not rest:
            raise _unreadable(text)
        name, numbers = uuid, 1
        for word in rest:
            if match := _INTERVAL.fullmatch(word):
                first = int(match[1])
                last = int(match[2] or first)
                if not 1 <= first <= last <= _LAST_NUMBER:
                    raise _unreadable(text)
                self._insert(name, first, last)
                numbers += 1
            elif _TAG.fullmatch(word) and numbers:
                name, numbers = f"{uuid}:{word}", 0
            else:
                raise _unreadable(text)
        if not numbers:
            raise _unreadable(text)

    def add(self, *gtids: str) -> None:
        """Take in transactions, `uuid:7` or `uuid:tag:7`; one that follows the one before it costs no search."""
        name, first, last, following = "", 0, 0, ""
        for gtid in gtids:
            if gtid == following:
                last += 1
            else:
                if name:
                    self._insert(name, first, last)
                name, _, number = gtid.rpartition(":")
                first = last = int(number)
            following = f"{name}:{last + 1}"
        if name:
            self._insert(name, first, last)

    def _insert(self, name: str, first: int, last: int) -> None:
        intervals = self._intervals.setdefault(name, [])
        left = bisect_left(intervals, first - 1, key=lambda interval: interval[1])
        right = left
        while right < len(intervals) and intervals[right][0] <= last + 1:
            right += 1
        if left < right:
            first, last = min(first, intervals[left][0]), max(last, intervals[right - 1][1])
        intervals[left:right] = [(first, last)]

    def contains(self, gtid: str) -> bool:
        name, _, number = gtid.lower().rpartition(":")
        return self._covers(name, int(number), int(number))

    def _covers(self, name: str, first: int, last: int) -> bool:
        intervals = self._intervals.get(name, [])
        at = bisect_left(intervals, last, key=lambda interval: interval[1])
        return at < len(intervals) and intervals[at][0] <= first

    def without(self, other: MysqlGtids) -> MysqlGtids:
        """What `other` lacks of this."""
        left = MysqlGtids()
        for name, intervals in self._intervals.items():
            for first, last in intervals:
                for begins, ends in other._intervals.get(name, []):
                    if begins > last:
                        break
                    if ends >= first:
                        if begins > first:
                            left._insert(name, first, begins - 1)
                        first = ends + 1
                if first <= last:
                    left._insert(name, first, last)
        return left

    def within(self, other: GtidSet) -> bool:
        return isinstance(other, MysqlGtids) and all(
            other._covers(name, first, last) for name, intervals in self._intervals.items() for first, last in intervals
        )

    def intervals(self) -> list[tuple[str, str, list[tuple[int, int]]]]:
        """(uuid, tag, intervals with both ends included), sorted; the tag is empty for plain ones."""
        names = sorted((*name.split(":"), "")[:2] for name in self._intervals)
        return [(uuid, tag, list(self._intervals[f"{uuid}:{tag}" if tag else uuid])) for uuid, tag in map(tuple, names)]

    def copy(self) -> Self:
        made = type(self)()
        made._intervals = {name: list(intervals) for name, intervals in self._intervals.items()}
        return made

    def __bool__(self) -> bool:
        return bool(self._intervals)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MysqlGtids) and self._intervals == other._intervals

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __str__(self) -> str:
        parts: dict[str, list[str]] = {}
        for uuid, tag, intervals in self.intervals():
            words = parts.setdefault(uuid, [uuid])
            words += [tag] if tag else []
            words += [f"{first}-{last}" if first < last else str(first) for first, last in intervals]
        return ",".join(":".join(words) for words in parts.values())


class MariadbGtids:
    """By domain: the server and the sequence number of its last transaction."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, int]] = {}

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of several in one domain, as in `gtid_binlog_state`, the one with the highest number counts."""
        found = cls()
        for part in "".join(text.split()).split(","):
            match = _MARIADB.fullmatch(part)
            if match is None:
                if part:
                    raise _unreadable(text)
                continue
            if not found.contains(part):
                found.add(f"{int(match[1])}-{int(match[2])}-{int(match[3])}")
        return found

    def add(self, *gtids: str) -> None:
        """Take in transactions, `domain-server-sequence`: each is the last of its domain then."""
        for gtid in gtids:
            domain, server, number = gtid.split("-")
            self._last[domain] = (server, int(number))

    def contains(self, gtid: str) -> bool:
        domain, _, number = gtid.split("-")
        last = self._last.get(domain)
        return last is not None and last[1] >= int(number)

    def within(self, other: GtidSet) -> bool:
        return isinstance(other, MariadbGtids) and all(
            other.contains(f"{domain}-{server}-{number}") for domain, (server, number) in self._last.items()
        )

    def copy(self) -> Self:
        made = type(self)()
        made._last = dict(self._last)
        return made

    def __bool__(self) -> bool:
        return bool(self._last)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MariadbGtids) and self._last == other._last

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __str__(self) -> str:
        ordered = sorted(self._last.items(), key=lambda item: int(item[0]))
        return ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in ordered)
