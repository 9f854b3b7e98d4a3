"""AUTO_INCREMENT: ids are carried over, and no server gives any until the switch; then every table would."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import gcd

from migrate.model.table import TableId
from migrate.mysql.catalog import place
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as full_name
from migrate.preflight.limits import limited
from migrate.preflight.result import Result, Verdict
from migrate.target.groups import name_of
from migrate.target.routing import Place, Plan, PlannedTable

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_SHOWN = 8
_LEAST = 1_000_000
"""Ids a table, below which ranges would be used up too soon."""
_ENOUGH = 10**12
"""Not more: after a rollback the source counts on from the highest id of all, and the next ranges begin above that."""
_AHEAD = 1_000_000
"""Room, at the least, for the ids that the sources still give until the cutover."""
_FIRST = 100


@dataclass(frozen=True, slots=True)
class Counter:
    """A column whose values a source's server gives: from offset on, in steps. first: some of those given first."""

    planned: PlannedTable
    column: str
    highest: int = 0
    first: frozenset[int] = frozenset()
    server: tuple[str, int, str] = ("", 0, "")
    step: int = 1
    offset: int = 1

    def meets(self, other: Counter) -> bool:
        """Whether both may give the same value. MySQL manual, "auto_increment_offset": above the step it is ignored."""
        mine, theirs = (one.offset if one.offset <= one.step else 1 for one in (self, other))
        return self.server == other.server or (mine - theirs) % gcd(self.step, other.step) == 0


def look(connection: Connection, planned: PlannedTable) -> Counter | None:
    """None where the server gives none of the table's values."""
    table = planned.table
    row = connection.one(
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND EXTRA LIKE %s",
        [table.database, table.name, "%auto_increment%"],
    )
    if row is None or str(row[0]) not in table.by_name:
        return None
    column, name = str(row[0]), full_name(table.database, table.name)
    if not planned.group and (len(planned.places) == 1 or planned.broadcast or column in planned.rule.columns):
        return Counter(planned, column)  # no range is advised, so that its ids need not be read
    id_ = quote(column)
    highest = connection.one(limited(connection, f"SELECT COALESCE(MAX({id_}), 0) FROM {name}"))
    first = connection.query(limited(connection, f"SELECT {id_} FROM {name} ORDER BY {id_} LIMIT {_FIRST}"))
    ((step, offset),) = connection.query("SELECT @@GLOBAL.auto_increment_increment, @@GLOBAL.auto_increment_offset")
    return Counter(
        planned,
        column,
        int(highest[0] if highest else 0),
        frozenset(int(one) for (one,) in first),
        place(connection),
        int(step),
        int(offset),
    )


def next_ids(connection: Connection, places: Collection[Place]) -> dict[Place, int]:
    """What each of these target tables that gives ids, at the server of `connection`, would give next."""
    sql = "SELECT TABLE_NAME, AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"
    there = {
        (database, str(name)): int(number)
        for database in {place.database.database for place in places}
        for name, number in connection.query(f"{sql} AND AUTO_INCREMENT IS NOT NULL", [database])
    }
    return {place: there[at] for place in places if (at := (place.database.database, place.table)) in there}


def check(plan: Plan, seen: Mapping[TableId, Counter | None], given: Mapping[Place, int]) -> Iterator[Result]:
    """What becomes of the ids of each table, or of the tables of a group together.

    seen: of each table that could be looked at. A group with one that could not is told by that. given: by target table
    that is there, the next id that it would give.
    """
    for planned in plan.tables.values():
        members = plan.members(planned)
        if members[0] is not planned or any(one.table.id not in seen for one in members):
            continue
        if found := [one for member in members if (one := seen[member.table.id]) is not None]:
            yield _of_targets(found, members, given)
            yield from _of_sources(found)


def _of_targets(found: Sequence[Counter], members: Sequence[PlannedTable], given: Mapping[Place, int]) -> Result:
    """A note where several target tables would give the same ids, with ranges that keep them apart."""
    planned, name = found[0].planned, found[0].column
    places, subject = planned.places, planned.table.full_name
    if len(members) > 1:
        subject = f"group '{planned.group}'"
    told = f"{subject}: {name} is AUTO_INCREMENT: its values are copied as they are"
    if len(places) == 1:
        told += ", and the one target table counts on from its own highest"
        return Result("counters", subject, Verdict.PASS, told)
    if planned.broadcast:
        told += f"; after the switch each of {len(places)} nodes would give one of its own for the same row"
        mend = f"have the application make values of {name} before the cutover, as it writes a row at every node"
        return Result("counters", subject, Verdict.NOTE, told, mend)
    if name in planned.rule.columns:
        told += "; it chooses the target table, and no target table would give ids that belong to it"
        mend = f"have the application make values of {name} before the cutover"
        return Result("counters", subject, Verdict.NOTE, told, mend)
    highest = max(one.highest for one in found)
    if ids := _apart(planned, name, highest, given):
        told += f"; the target tables have ranges of {ids:,} ids and more: the first begins at"
        told += f" {min(given[place] for place in places)}, which the highest id, {highest} now, must not reach"
        return Result("counters", subject, Verdict.PASS, told)
    told += f"; each of {len(places)} target tables counts on from its own highest one, so two would give the same"
    return Result("counters", subject, Verdict.NOTE, told, _ranges(planned, name, highest))


def _apart(planned: PlannedTable, name: str, highest: int, given: Mapping[Place, int]) -> int:
    """How many ids the smallest range has that the target tables begin, above all that there are; 0 when they overlap,
    or one is not worth to be called a range."""
    if any(place not in given for place in planned.places):
        return 0
    begins = sorted(given[place] for place in planned.places)
    ends = [*begins[1:], _most(planned.table.by_name[name].type)]
    least = min(end - begin for begin, end in zip(begins, ends, strict=True))
    return least if begins[0] > highest and least >= _LEAST else 0


def _ranges(planned: PlannedTable, name: str, highest: int) -> str:
    """The statements that give each target table ids of its own, above those that the sources give until then."""
    column, places = planned.table.by_name[name], planned.places
    bases = (max(2 * highest, highest + _AHEAD) + 1, 2 * highest + 1)
    base, span = next(
        ((one, span) for one in bases if (span := min((_most(column.type) - one) // len(places), _ENOUGH)) >= _LEAST),
        (0, 0),
    )
    if not span:
        return f"{column.shown_type} is too small for ranges: have the application make ids"
    shown = "; ".join(
        f"{one.database.target}: ALTER TABLE {full_name(one.database.database, one.table)}"
        f" AUTO_INCREMENT = {base + number * span}"
        for number, one in enumerate(places[:_SHOWN])
    )
    more = f"; and so on by {span}" if len(places) > _SHOWN else ""
    again = f"run preflight again just before it: the highest id is {highest} now, and must stay below {base}"
    return f"have the application make ids, or give ranges before the cutover: {shown}{more}; {again}"


def _of_sources(found: Sequence[Counter]) -> Iterator[Result]:
    """Tables of a group that give the same ids: a key is one row in all of them (decision 0018)."""
    name, key = found[0].column, found[0].planned.table.key
    pairs = [(one, other) for one, other in combinations(found, 2) if one.meets(other)]
    if not pairs or name not in key or found[0].planned.key_tells_home:
        return  # no two tables have a key in common
    both = [one for one in found if any(one in pair for pair in pairs)]
    subject = f"group '{found[0].planned.group}'"
    told = f"{subject}: the servers count {name} of {', '.join(name_of(one.planned) for one in both)} by the same steps"
    same = key == (name,) and any(one.first & other.first for one, other in pairs if not one.planned.rows)
    if len(key) > 1:
        told += ": unless another column of the key tells the tables apart, two rows get the same key"
    elif same:
        told += ", and they have the same ones: rows of two tables cannot be one row at the targets"
    else:
        told += ": unless they are far apart for good, two rows get the same one, and their partition is stopped"
    mend = f"have the application make values of {name}"
    if len({one.server for one in both}) == len(both):
        settings = (
            f"{one.planned.table.source}: SET GLOBAL auto_increment_increment = {len(both)},"
            f" GLOBAL auto_increment_offset = {number}"
            for number, one in enumerate(both, 1)
        )
        mend += f", or have each server count in steps of its own, for good and in every session: {'; '.join(settings)}"
    mend += "; or have a `key` with the columns by which the sources are sharded, and give their rule as `home`"
    if same:
        mend += "; and give one of the rows that share an id another one"
    yield Result("counters", subject, Verdict.PROBLEM if same else Verdict.NOTE, told, mend)


def _most(column_type: str) -> int:
    """The highest value of an integer type; of others, which count too, what a FLOAT has exactly."""
    name = column_type.lower().partition("(")[0].split()[0]
    if name not in _BITS:
        return 1 << 24
    return (1 << _BITS[name] - ("unsigned" not in column_type.lower())) - 1
