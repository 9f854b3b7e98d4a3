"""Whether a publisher is behind where it was before: after a rewind by hand, a failover without GTID, or one by GTID
before everything that was published was acknowledged."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from migrate.model.coordinate import in_log
from migrate.state import failover, position, rewind
from migrate.state.failover import NotedFailover
from migrate.state.position import Position
from migrate.state.rewind import Rewind

Place = tuple[str, int]


def replaying(connection: sa.Connection, migration: str, at: Position) -> str:
    """The place up to which the source is still being replayed, as rows at the target go back and forth until then;
    "" when it is behind that.

    After a failover that is the end of the new server's log as it was then: what was published before is below it.
    """
    until: Place | None = None
    rewinds = rewind.every(connection, migration, at.source)
    failovers = failover.every(connection, migration, at.source)
    steps: list[Rewind | NotedFailover] = [*rewinds, *failovers]
    for step in sorted(steps, key=lambda one: one.incarnation):
        if isinstance(step, Rewind):  # perhaps from the midst of another replay
            until = max(until or ("", 0), (step.from_file, step.from_pos), key=_order)
        elif step.scheme != failover.GTID or until is not None:  # on the old server a replay may have been under way
            until = (step.until_file, step.until_pos) if step.until_file else None
    if until is None or _order((at.file, at.pos)) >= _order(until):
        return ""
    return f"{until[0]}:{until[1]}"


def is_past_failover(connection: sa.Connection, migration: str, at: Position) -> bool:
    """Whether everything that the server before had is published, where the present one took its place: its log is read
    to where it ended then. By GTID it is read from what is published on, which need not be the end."""
    failovers = [one for one in failover.every(connection, migration, at.source) if one.incarnation <= at.incarnation]
    last = max(failovers, key=lambda one: one.incarnation, default=None)
    if last is None or not last.until_file:
        return True
    return _order((at.file, at.pos)) >= _order((last.until_file, last.until_pos))


def sources(state: sa.Engine, migration: str, names: Iterable[str]) -> dict[str, str]:
    """Of these sources those that are being replayed, each with the place up to which."""
    found = {}
    with state.connect() as connection:
        for name in dict.fromkeys(names):
            where = position.load(connection, migration, name)
            if where is not None and (until := replaying(connection, migration, where)):
                found[name] = until
    return found


def _order(place: Place) -> tuple[int, int]:
    return in_log(*place) if place[0] else (0, place[1])
