"""Generated columns, keys and checks that look at the session come out otherwise at a target: they are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from migrate.model.table import Table
from migrate.mysql.connection import Connection
from migrate.mysql.definition import show_create_whole
from migrate.mysql.expressions import checks, expressions, inlined, unique_keys
from migrate.mysql.generated import TrialOutcome, tried
from migrate.preflight.limits import SECONDS
from migrate.preflight.result import Result, Verdict
from migrate.preflight.schema import recomputed
from migrate.preflight.schema.recomputed import Seen

_STABLE = "what no session changes, as a DATETIME instead of a TIMESTAMP"


def check(connection: Connection, table: Table) -> list[Result]:
    """A problem for each column whose value is kept, in the row or in a key, and for each unique key on an expression
    and each CHECK, that depends on who writes the row; and for each such column that has another value in rows."""
    statement = show_create_whole(connection, table.database, table.name)
    generated = {column.name for column in table.columns if column.generated}
    found = expressions(statement, table) if generated else []
    indexed = _indexed(connection, table) if generated else set()
    by_column = {one.column: one.text for one in found}
    kept = [inlined(one, by_column) for one in found if one.stored or one.column in indexed]
    place = table.full_name
    unread = [
        Result("generated", place, Verdict.UNKNOWN, f"{place}: what {name} is generated from is not read")
        for name in sorted(generated - {one.column for one in found})
    ]
    columns = tried(connection, table, kept)
    told = {*columns.dependent, *columns.unknown}
    return [
        *unread,
        *_told(place, columns, _COLUMN),
        *(
            result
            for one in kept
            if one.column not in told
            for result in _of_rows(place, one.column, recomputed.seen(connection, table, one))
        ),
        *(
            result
            for some, what in ((unique_keys(connection, table), _KEY), (checks(statement), _CHECK))
            for result in _told(place, tried(connection, table, [inlined(one, by_column) for one in some]), what)
        ),
    ]


@dataclass(frozen=True, slots=True)
class _What:
    """What an expression is of, what comes of its looking at the session, and the way out; with {} for the name."""

    title: str
    effect: str
    mend: str


_COLUMN = _What(
    "generated column {}",
    "the target would compute another value than the source has stored",
    "make {} a plain column at the source, which keeps the values (ALTER TABLE … MODIFY COLUMN), or compute it"
    f" from {_STABLE}",
)
_KEY = _What(
    "unique key {}",
    "two rows of the source could have one value at the target",
    f"drop {{}} at the source, or make it of {_STABLE}",
)
_CHECK = _What(
    "check {}",
    "the target would refuse rows that the source took",
    f"drop {{}} at the source, or make it of {_STABLE}",
)


def _told(place: str, found: TrialOutcome, what: _What) -> Iterator[Result]:
    said = [
        (name, Verdict.PROBLEM, f"depends on the session that writes the row ({', '.join(names)}); {what.effect}")
        for name, names in found.dependent.items()
    ]
    none = "may depend on the session that writes the row: no row that was looked at gives a value, nor do made-up ones"
    said += [(name, Verdict.UNKNOWN, none) for name in found.unknown]
    nobody = "which nothing at the server has; where a session that writes has it,"
    said += [
        (name, Verdict.NOTE, f"depends on sql_mode {', '.join(modes)}, {nobody} {what.effect}")
        for name, modes in found.by_mode.items()
    ]
    for name, verdict, words in said:
        yield Result("generated", place, verdict, f"{place}: {what.title.format(name)} {words}", what.mend.format(name))


def _of_rows(place: str, name: str, seen: Seen) -> list[Result]:
    titled = f"{place}: {_COLUMN.title.format(name)}"
    if seen.late:
        told = (
            f"{titled}: whether rows have the value that a session of the service computes was not seen in {SECONDS} s"
        )
        return [Result("generated", place, Verdict.NOTE, told)]
    if not seen.different and not seen.error:
        return []
    said = f"{seen.different:,} of {seen.rows:,} rows looked at" if seen.different else seen.error
    told = f"{titled} has another value in rows than a session of the service computes ({said}); {_COLUMN.effect}"
    return [Result("generated", place, Verdict.PROBLEM, told, _COLUMN.mend.format(name))]


def _indexed(connection: Connection, table: Table) -> set[str]:
    rows = connection.query(
        "SELECT DISTINCT COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (table.database, table.name),
    )
    return {str(row[0]) for row in rows}
