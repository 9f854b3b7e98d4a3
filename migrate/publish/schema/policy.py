"""What the schema history takes for a selected table after a statement: followed, or stopped in front of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import structlog

from migrate.model.coordinate import Coordinate
from migrate.model.errors import Code, StopError
from migrate.mysql import periods
from migrate.mysql.column_defaults import OWN_VALUES, columns, own_values
from migrate.mysql.quoting import printed_table
from migrate.publish.schema import group_columns, row_limits
from migrate.publish.schema.alter_effects import renamed_columns
from migrate.publish.schema.ddl import Ddl, Verb
from migrate.publish.schema.definitions import COPY_AGAIN, Definitions, full
from migrate.publish.schema.sqltext import ANSI_QUOTES, MSSQL, NO_BACKSLASH_ESCAPES
from migrate.publish.schema.statement import Statement
from migrate.publish.schema.token_cursor import Name
from migrate.state.schema_history import Version

log = structlog.get_logger("migrate.publish")
_FOLLOW = (
    "make its target tables the same by hand, set tables[].ddl: ignore and start again; or undo it at the source,"
    f" {COPY_AGAIN}"
)
_TYPED = 200
"""Characters of a statement that a hint repeats."""
_OF_SHELLS = frozenset('"`$\\!')
"""What a shell, or the hint's own quotes, would read otherwise."""
_READS = ANSI_QUOTES | NO_BACKSLASH_ESCAPES | MSSQL | 0x1 | 0x2 | 0x200 | 1 << 29 | 1 << 32
"""Bits of sql_mode by which a definition is read otherwise: also REAL_AS_FLOAT, PIPES_AS_CONCAT, ORACLE,
HIGH_NOT_PRECEDENCE, and MariaDB's EMPTY_STRING_IS_NULL, which is MySQL's TIME_TRUNCATE_FRACTIONAL."""
_EXPLICIT = "explicit_defaults_for_timestamp"
_FOLLOW_AND_REPAIR = (
    "make its target tables the same by hand, set tables[].ddl: ignore, start again, and run `migrate verify --repair`,"
    f" which brings the values of the source; or undo it at the source, {COPY_AGAIN}"
)
_FOLLOW_STANDBY = (
    "applications are at the other side, and nothing of this one is carried: make the other side's tables the same, set"
    " tables[].ddl: ignore and start again (docs/operations.md#altering-a-table); or undo it here,"
    f" {COPY_AGAIN}"
)
_FOLLOW_RENAME = (
    "give it its name back, set `rename: ignore` in its tables[].ddl and start again; where rows changed under the"
    f" other name, {COPY_AGAIN}"
)
_TEMPORARY = "it may be about a temporary table of that name: its session met one, and logs statements"
_FOLLOW_GROUP = (
    "let the target tables take rows of both definitions (`migrate ddl run` with `--side targets`), set"
    " tables[].ddl: ignore for the group and start again; once every table of it is altered, make the target tables as"
    " these and run `migrate verify --repair` (docs/ddl.md#tables-of-a-group); or undo it at the source,"
    f" {COPY_AGAIN}"
)
_WITHOUT = (
    "leave the target tables without the key, set tables[].ddl: ignore and start again; or undo it at the source,"
    f" {COPY_AGAIN}"
)


@dataclass(frozen=True, slots=True)
class Step:
    """A statement that defines tables, at its place in the log."""

    ddl: Ddl
    statement: Statement
    since: Coordinate
    does: Ddl | None = None  # without the clauses that have no effect
    standby: bool = False  # applications are not at the side that is read

    def stop(self, name: Name, why: str, hint: str) -> StopError:
        because = f" ({why})" if why else ""
        return StopError(
            f"a statement may change {full(name)}: {shown(self.statement)}{because}", hint=hint, code=Code.STATEMENT
        )


class ToBeApplied(StopError):  # noqa: N818 - it says what is so
    """In front of a statement that the target tables are to get before the stream goes on (`tables[].ddl: apply`)."""

    code = Code.STATEMENT

    def __init__(
        self,
        stopped: StopError,
        name: Name,
        sql: str,
        since: Coordinate,
        creates: tuple[str, str] | None = None,
        *,
        empties: bool = False,
        brings: str = "",
    ) -> None:
        """stopped: as one would stop at it. sql: the statement; since: where it stands. creates: the CREATE TABLE from
        before and after where another table took the name, and no statement says what was altered. empties: it is a
        TRUNCATE. brings: of a table of a group, as `group_columns.brought` gives it; else ""."""
        super().__init__(stopped.message, hint=stopped.given)
        self.name, self.sql, self.since, self.creates, self.empties = name, sql, since, creates, empties
        self.brings = brings
        self.takes_more = False
        """Rows from before it can be written behind it as they are, as `group_columns.takes_more` tells."""


class Policy:
    """`tables[].ddl` of each selected table, and what no policy lets through."""

    def __init__(self, known: Definitions, *, mariadb: bool) -> None:
        self._known = known
        self._mariadb = mariadb
        self._flavour = "mariadb" if mariadb else "mysql"

    def judge(self, step: Step, name: Name, before: Version, after: Version, harmless: bool) -> Version:
        """What the history takes for a selected table. Raises StopError."""
        if after.table is None and after.create:
            raise step.stop(name, after.unsure, COPY_AGAIN)
        if after.table is None:
            self.follow_or_raise(step, name, f"what it makes of the table is not known: {after.unsure}")
            return replace(after, table=before.table, unequal=True)
        if before.table is not None:
            self._known.keep_order(name, before.table, after.table, shown(step.statement))
        same = before.table is not None and replace(after.table, database=name[0], name=name[1]) == replace(
            before.table, database=name[0], name=name[1]
        )
        if (key := periods.exclusive_added(before.create, after.create)) and not self._follows(step, name):
            raise step.stop(name, f"{key} {periods.WHY}", _WITHOUT)
        lifted = row_limits.lifted(before.create, after.create, self._known.made(name), mariadb=self._mariadb)
        keeps = same and harmless and _generated(before.create) == _generated(after.create)
        if keeps and not lifted:
            log.info("a statement changes no columns", table=full(name), statement=shown(step.statement))
            return after
        self._check_own_values(step, name, before, after)
        brings = self._of_group(step, name, before, after, lifted)
        try:
            self.follow_or_raise(step, name, lifted, (before.create, after.create), brings)
        except ToBeApplied as wanted:
            wanted.takes_more = group_columns.takes_more(before, after) and not self._added(before, after)
            raise
        return replace(after, unequal=not keeps)

    def _check_own_values(self, step: Step, name: Name, before: Version, after: Version) -> None:
        """Raises StopError where the targets would fill a new column with other values than the source has."""
        if not self._known.selected[name].applies or step.standby or step.since in self._known.applied:
            return
        renamed = renamed_columns((step.does or step.ddl).clauses)
        if found := own_values(columns(before.create), columns(after.create), renamed):
            raise step.stop(name, f"column {found[0]} {OWN_VALUES}", _FOLLOW_AND_REPAIR)

    def _of_group(self, step: Step, name: Name, before: Version, after: Version, lifted: str) -> str:
        """What it brings to target tables that other tables fill too; "" where none do, or it is not to come there.

        Raises StopError where they cannot have it before the other tables do.
        """
        selected = self._known.selected[name]
        if not (selected.grouped and selected.applies) or step.standby or step.since in self._known.applied:
            return ""
        if why := lifted or group_columns.why_not_first(before, after) or self._added(before, after):
            why = f"{why}: it is not brought to the target tables of a group (ddl: apply)"
            raise step.stop(name, why, _FOLLOW_GROUP)
        return group_columns.brought(before, after)

    def _added(self, before: Version, after: Version) -> str:
        """As `row_limits.added`."""
        had = before.table.by_name if before.table is not None else ()
        return row_limits.added(before.create, after.create, had, mariadb=self._mariadb)

    def rename_or_raise(self, step: Step, name: Name) -> None:
        """Raises StopError where the table's policy is to stop at another name of it."""
        if not self._known.selected[name].renames:
            raise step.stop(name, "it gets another name", _FOLLOW_RENAME)
        log.warning("another name followed, as configured", table=full(name), statement=shown(step.statement))

    def empties(self, step: Step, name: Name) -> bool:
        """Whether the target tables are emptied as well. Raises ToBeApplied where they are still to be."""
        if not self._known.selected[name].empties:
            return False
        if step.statement.temporary:
            raise step.stop(name, _TEMPORARY, COPY_AGAIN)
        if step.since not in self._known.applied:
            stopped = step.stop(name, "its rows go without events", COPY_AGAIN)
            sql = f"TRUNCATE TABLE {printed_table(*name)}"  # the rest was said to the source
            raise ToBeApplied(stopped, name, sql, step.since, empties=True)
        log.warning("emptied, as its target tables were", table=full(name), statement=shown(step.statement))
        return True

    def follow_or_raise(
        self, step: Step, name: Name, why: str, creates: tuple[str, str] = ("", ""), brings: str = ""
    ) -> None:
        """Raises StopError where the table's policy is to stop, or to have the statement run at the targets first.

        creates: its CREATE TABLE from before and after. brings: as `_of_group` gives it.
        """
        selected = self._known.selected[name]
        if selected.applies and not step.standby:
            if step.since not in self._known.applied and not self._is_there(step, name, brings):
                stopped = step.stop(name, why, _FOLLOW_GROUP if selected.grouped else _FOLLOW)
                if selected.grouped and not brings:
                    raise stopped
                if step.ddl.verb is Verb.RENAME and all(creates):
                    self._refuse_several(step, name)
                    raise ToBeApplied(stopped, name, step.statement.legible, step.since, creates, brings=brings)
                raise ToBeApplied(stopped, name, _sql(step, name, self._flavour), step.since, brings=brings)
        elif not self._follows(step, name):
            follow = _follow_by(step, self._flavour) if selected.forward else _FOLLOW
            raise step.stop(name, why, _FOLLOW_STANDBY if step.standby else follow)
        log.warning("statement followed, as configured", table=full(name), statement=shown(step.statement), reason=why)

    def _is_there(self, step: Step, name: Name, brings: str) -> bool:
        """Whether another table of the group had a statement that brought the same."""
        run = self._known.joins(name, step.since, brings) if brings else 0
        if run:
            told = "the target tables have it already, by a statement of another table of the group"
            log.warning(told, table=full(name), statement=shown(step.statement), run=run)
        return run > 0

    def _refuse_several(self, step: Step, name: Name) -> None:
        """Raises StopError at a statement on several tables: it counts as applied once the first one has it."""
        if len({*step.ddl.names} & self._known.selected.keys()) > 1:
            raise step.stop(name, "it changes several tables of the migration", _FOLLOW)

    def _follows(self, step: Step, name: Name) -> bool:
        selected = self._known.selected[name]
        return selected.follows_standby if step.standby else selected.follows


def _follow_by(step: Step, flavour: str) -> str:
    """What goes on behind an ALTER TABLE at the source, with the command that runs it at the target tables."""
    if step.ddl.verb is not Verb.ALTER or len(step.ddl.tables) > 1:
        return _FOLLOW
    sql = " ".join(step.statement.legible.split()).rstrip("; ")
    is_typed = len(sql) <= _TYPED and not set(sql) & _OF_SHELLS and not _read_otherwise(step, flavour)
    typed = sql if is_typed else "STATEMENT"
    return (
        f'`migrate ddl run "{typed}" --side targets` runs it at the target tables; then set tables[].ddl: ignore and'
        f" start again; or undo it at the source, {COPY_AGAIN}"
    )


def _sql(step: Step, name: Name, flavour: str) -> str:
    """The statement as a session of ours reads it. Raises StopError where it may mean something else there."""
    if why := _read_otherwise(step, flavour):
        raise step.stop(name, why, _FOLLOW)
    return step.statement.legible


def _read_otherwise(step: Step, flavour: str) -> str:
    """Why a session of ours would make another table of the statement than its own did; "" where it does not.

    flavour: of the server that logged it.
    """
    session = step.statement.session
    if step.statement.temporary:
        return _TEMPORARY
    if not step.statement.exact or session.mode & _READS:
        return "its session's sql_mode or character set reads it in another way than ours"
    if not any(token.is_word("TIMESTAMP") for clause in step.ddl.clauses for token in clause):
        return ""
    if session.time_zone not in ("", "+00:00", "UTC"):  # MySQL notes it of each statement on a table with such a column
        return "its session's time zone gives a time in it another meaning than ours"
    if session.variables(flavour).get(_EXPLICIT) == 0:
        return f"its session's {_EXPLICIT} is off, which makes other TIMESTAMP columns than ours"
    return ""


def _generated(create: str) -> list[str]:
    """The lines of generated columns: another expression changes values without events."""
    return [line.strip().rstrip(",") for line in create.splitlines() if " GENERATED ALWAYS AS " in line]


def shown(statement: Statement) -> str:
    """On one line, for messages."""
    return " ".join(statement.legible.split())[:200]
