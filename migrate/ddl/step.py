"""One shard table of a run, brought to its definition from after the statement, or back to that from before.

Which of them it has, the table itself says; the journal says what was about to be sent. So a step can be repeated after
a kill at any of its points:

1. Lock the table's name at its server, in the session that will send the statement. A statement whose client was killed
   runs on in its session, which keeps the lock as long: nobody judges the table before that is over.
2. Read the definition: new, old, or neither, which stops the run.
3. Journal that the statement is about to be sent, if this process still holds the run.
4. Send it, with the lightest algorithm and lock of those that are allowed.
5. Read the definition again, and journal what it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import pymysql
import sqlalchemy as sa

from migrate.ddl import survey
from migrate.ddl.definition import Definition, differing, read
from migrate.ddl.levels import AT_ONCE, LEVELS, Allowance, Level
from migrate.ddl.plan import compensating
from migrate.ddl.statement import LogicalStatement
from migrate.ddl.trial import HEAVIER
from migrate.model.errors import ServerError
from migrate.mysql.connection import Connection
from migrate.mysql.errors import number, passes, text
from migrate.mysql.quoting import printed_table
from migrate.publish.schema.ddl import Verb
from migrate.state import ddl as journal
from migrate.state.ddl import Goal, ShardRow, Stage


class Seen(Enum):
    """What a shard table is, by its definition."""

    OLD = "old"
    NEW = "new"
    SAME = "same"  # as before and as after, which are equal: repeating the statement changes nothing
    OTHER = "other"


@dataclass(frozen=True)
class StepJournal:
    """Writes what a step does, while the lease is this process's. still_ours: raises OwnershipLost in a transaction."""

    state: sa.Engine
    migration: str
    run: int
    still_ours: Callable[[sa.Connection], None]

    def begin(self, row: ShardRow) -> None:
        with self.state.begin() as connection:
            self.still_ours(connection)
            journal.begin(connection, self.migration, self.run, row)

    def end(self, row: ShardRow, stage: Stage, detail: str = "") -> None:
        with self.state.begin() as connection:
            self.still_ours(connection)
            journal.end(connection, self.migration, self.run, row.number, stage, detail)


class Ended(NamedTuple):
    """What a shard table is behind a step, and why that is not the goal. error: the number of its server's, 0 for none.
    passes: a later attempt may come to it."""

    stage: Stage
    detail: str = ""
    error: int = 0
    passes: bool = False


class Refusal(NamedTuple):
    """What a server says of a statement that it does not take, and the number of that; empty where it takes it."""

    told: str = ""
    error: int = 0


class StillRunning(ServerError):  # noqa: N818 - it says what is so
    """An earlier statement on the table is not over."""


def step(
    session: Connection, logical: LogicalStatement, row: ShardRow, goal: Goal, bound: Allowance, notes: StepJournal
) -> Ended:
    """Bring a shard table to a goal; FAILED is said of what the server would refuse again.

    Raises: StillRunning; OwnershipLost; the driver's error for what passes: nothing is noted of that, and the step is
    to be repeated in a new session.
    """
    _lock(session, row)
    seen, detail = look(session, logical, row)
    if seen is not Seen.OTHER and not _is_to_be_sent(seen, row, goal):
        return _ended(notes, row, Stage.NEW if goal is Goal.NEW else Stage.OLD)
    if seen is Seen.OTHER:
        return _ended(notes, row, Stage.ALTERED, detail)
    if goal is Goal.OLD and row.undo is None:
        return _ended(notes, row, Stage.FAILED, "the statement was run, and none is known that takes it back")
    begun = Stage.BEGUN if goal is Goal.NEW else Stage.UNDOING
    witness = row.witness
    if logical.verb is Verb.TRUNCATE:  # it may have been rebuilt since the plan
        witness = survey.engine_number(session, row.database, row.table)
    row = replace(row, stage=begun, witness=witness)
    notes.begin(row)
    refusal = send(session, logical, row, goal, bound)
    seen, detail = look(session, logical, row)
    if seen is Seen.OTHER:
        return _ended(notes, row, Stage.ALTERED, detail)
    if seen.value == goal.value or (seen is Seen.SAME and not refusal.told):
        return _ended(notes, row, Stage.NEW if goal is Goal.NEW else Stage.OLD)
    why = refusal.told or "the server took the statement, and the table is as it was"
    return _ended(notes, row, Stage.FAILED, why, refusal.error)


def _ended(notes: StepJournal, row: ShardRow, stage: Stage, detail: str = "", error: int = 0) -> Ended:
    notes.end(row, stage, detail)
    return Ended(stage, detail, error)


def _is_to_be_sent(seen: Seen, row: ShardRow, goal: Goal) -> bool:
    """Of a statement that leaves no sign, only the journal says whether it was done; nothing of it is taken back."""
    if seen is Seen.SAME:
        return goal is Goal.NEW and row.stage is not Stage.NEW
    return seen is not (Seen.NEW if goal is Goal.NEW else Seen.OLD)


def _lock(session: Connection, row: ShardRow) -> None:
    name = f"migrate ddl {hashlib.sha256(f'{row.database}.{row.table}'.encode()).hexdigest()[:40]}"
    got = session.one("SELECT GET_LOCK(%s, 1)", [name])
    if got is None or got[0] != 1:
        holder = session.one("SELECT IS_USED_LOCK(%s)", [name])
        which = f"session {holder[0]}" if holder is not None and holder[0] is not None else "a session"
        raise StillRunning(
            f"{row}: an earlier statement still runs, in {which} of {session.name}",
            hint="wait for it, or KILL that session; then try again",
        )


def look(session: Connection, logical: LogicalStatement, row: ShardRow) -> tuple[Seen, str]:
    """What a shard table is now, and what is different where it is neither. Raises the driver's error."""
    now = read(session, row.database, row.table)
    if logical.verb is Verb.TRUNCATE and now.text == row.before:
        unsent = row.stage in (Stage.WAITING, Stage.FAILED)  # another number is a rebuild then, as by OPTIMIZE TABLE
        same = unsent or survey.engine_number(session, row.database, row.table) == row.witness
        return (Seen.OLD if same else Seen.NEW), ""
    if now.text == row.before:
        return (Seen.SAME if row.before == row.after else Seen.OLD), ""
    if now.text == row.after:
        return Seen.NEW, ""
    if not now.text:
        return Seen.OTHER, "it is not there"
    return Seen.OTHER, f"compared with before the run it {differing(Definition(row.before), now)}"


def send(session: Connection, logical: LogicalStatement, row: ShardRow, goal: Goal, bound: Allowance) -> Refusal:
    """Send the statement. Raises the driver's error for what passes."""
    refusal, allowed = Refusal(), f"--algorithm {bound.algorithm} --lock {bound.lock} is all that is allowed"
    for level in _levels(row, goal, bound):
        try:
            session.execute_noted(_written(logical, row, goal, level).replace("%", "%%"))
            return Refusal()
        except pymysql.MySQLError as error:
            if passes(error):
                raise
            refusal = Refusal(text(error), number(error))
            if refusal.error not in HEAVIER:
                return refusal
    return refusal._replace(told=f"{refusal.told} ({allowed})" if refusal.told else allowed)


def _levels(row: ShardRow, goal: Goal, bound: Allowance) -> list[Level]:
    planned = Level(row.algorithm, row.lock)
    if goal is Goal.NEW and planned not in LEVELS:
        return [AT_ONCE]
    return [level for level in LEVELS if bound.allows(level)]


def _written(logical: LogicalStatement, row: ShardRow, goal: Goal, level: Level) -> str:
    if goal is Goal.NEW:
        return logical.for_table(row.database, row.table, level)
    chosen = [f"ALGORITHM={level.algorithm}"] if level.algorithm else []
    chosen += [f"LOCK={level.lock}"] if level.lock else []
    named = printed_table(row.database, row.table)
    return compensating(row.undo or (), named, row.table, tuple(chosen))
