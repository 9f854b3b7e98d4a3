"""Which of the two streams leads: what reads one side as the truth must not run while applications are at the other."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import sqlalchemy as sa

from migrate.model.command import Command, Direction
from migrate.model.errors import Code, PreflightError, ServerError, StopError
from migrate.state import cutover, switch
from migrate.state import migration as migrations
from migrate.state.cutover import Outcome, SwitchDirection
from migrate.state.switch import Side


def leads(connection: sa.Connection, name: str) -> bool:
    """Whether applications write at the sources of this migration, or of this reverse stream."""
    of = migrations.reverse_of(connection, name)
    side = switch.get(connection, of or name).side
    return side is (Side.TARGET if of else Side.SOURCE)


def is_switching(connection: sa.Connection, name: str) -> bool:
    """Whether a cutover or rollback is under way."""
    run = cutover.latest(connection, migrations.reverse_of(connection, name) or name)
    return run is not None and run.open


def given_up(connection: sa.Connection, name: str) -> frozenset[str]:
    """The servers that this stream reads and that the cutover or rollback under way goes without (`--without`)."""
    of = migrations.reverse_of(connection, name)
    left_by = SwitchDirection.TO_SOURCES if of else SwitchDirection.TO_TARGETS
    return cutover.given_up(connection, of or name, left_by)


def version(connection: sa.Connection, name: str) -> int:
    """Of the switch that applications read, for a migration or its stream the other way."""
    return switch.get(connection, migrations.reverse_of(connection, name) or name).version


def frozen(connection: sa.Connection, name: str) -> int:
    """The version of the switch that every database of a migration and its reverse stream was frozen with last."""
    return switch.frozen(connection, migrations.reverse_of(connection, name) or name)


def refuse_unless(connection: sa.Connection, name: str, what: str) -> None:
    """Raise PreflightError where what is read as the truth is the side that follows, and of a finished migration.

    what: a command's name.
    """
    migrations.refuse_finished(connection, name)
    if leads(connection, name):
        return
    here, there, other = sides(connection, name)
    raise PreflightError(
        f"`{what}` would read the {here}, and applications are at the {there}: newer rows would count as wrong",
        hint=_other(other, what),
    )


def _other(direction: Direction, what: str) -> str:
    return f"in the other direction: `{Command.of(what).towards(direction)}`"


class StreamSides(NamedTuple):
    """What a stream reads and what it writes, and the direction in which commands of the other one are typed."""

    read: str
    written: str
    other: Direction


def sides(connection: sa.Connection, name: str) -> StreamSides:
    if migrations.reverse_of(connection, name):
        return StreamSides("targets", "sources", Direction.FORWARD)
    return StreamSides("sources", "targets", Direction.REVERSE)


def hold(connection: sa.Connection, name: str) -> None:
    """No cutover begins or switches until the transaction ends. For a migration, or its reverse stream."""
    switch.get(connection, migrations.reverse_of(connection, name) or name, lock=True)


def refuse_now(connection: sa.Connection, name: str, what: str) -> None:
    """As `refuse_unless` and `refuse_in_cutover`, and it stays so until the transaction ends."""
    hold(connection, name)
    refuse_unless(connection, name, what)
    refuse_in_cutover(connection, name)


def refuse_in_cutover(connection: sa.Connection, name: str) -> None:
    """Raise PreflightError while a cutover is under way: what is asked for now could be done after its switch."""
    if is_switching(connection, name):
        raise PreflightError(
            "a cutover is under way", hint="try again once it is over; `migrate status` says where it stands"
        )


def refuse_rewind(connection: sa.Connection, name: str) -> None:
    """Raise PreflightError where changes that are published again would come over newer rows; as `refuse_now`."""
    hold(connection, name)
    refuse_in_cutover(connection, name)
    if not leads(connection, name):
        here, there, other = sides(connection, name)
        raise PreflightError(
            f"applications are at the {there}: older changes of the {here} would overwrite newer rows",
            hint=_other(other, "publish --from"),
        )


def refuse_replay(connection: sa.Connection, name: str, source: str, since: int, apart_seconds: int) -> None:
    """Of a stream that follows only what was written after the switch is published again: before it is older than rows
    of the side that leads, and nothing brings those once more. Nobody switches until the transaction ends.

    Args: from when on the source's changes come again, seconds since 1970; how far its clock and times may be wrong.
    Raises: StopError; ServerError while a cutover may switch yet.
    """
    hold(connection, name)
    of = migrations.reverse_of(connection, name) or name
    run = cutover.latest(connection, of)
    if run is not None and run.outcome is Outcome.RUNNING:
        raise ServerError(
            f"source '{source}' is another server now, and a cutover is under way", hint="it is tried again"
        )
    released = run is None or run.outcome is not Outcome.SWITCHED
    last = cutover.latest(connection, of, outcome=Outcome.DONE)
    if leads(connection, name) or (released and last is None):
        return  # without a switch so far nobody but the other stream writes where it reads
    switched = last.finished if released and last is not None else None
    if switched is not None and since > switched.replace(tzinfo=UTC).timestamp() + apart_seconds:
        return
    raise StopError(
        f"source '{source}' is another server now, without GTID: it would be published again from"
        f" {datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC, which may be before applications left it, over"
        " newer rows",
        hint="bring the old server back; or, where the clocks agree and it was written to since, lower"
        " failover.back_seconds",
        code=Code.SIDE,
    )
