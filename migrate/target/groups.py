"""Groups: source tables that share their target tables (invariant sources-never-compare, docs/decisions/0018)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from migrate.model.change import key_json
from migrate.model.errors import Code, PreflightError, StopError
from migrate.model.table import TableId
from migrate.model.words import some
from migrate.target import home
from migrate.target.home import named
from migrate.target.routing import Place, PlannedTable

_NAMED = 4


def name_of(planned: PlannedTable) -> str:
    """A table with its source, as messages name it."""
    return named(planned.table.id)


def refuse_misplaced(planned: PlannedTable, columns: Mapping[str, Sequence[str | None]], rows: int) -> None:
    """Raise StopError for the first of a table's rows that belongs to another one by the sources' own rule.

    columns: texts of the key's columns and of that rule's, of so many rows.
    """
    home = planned.home
    if home is None:
        return
    found = home.rule.route_many([columns[name] for name in home.rule.columns], rows=rows)
    for row, place in enumerate(found):
        if home.tables[place] != planned.table.id:
            key = key_json(tuple(str(columns[name][row]) for name in planned.table.key))
            raise misplaced(planned, home.tables[place], f" key {key}")


def misplaced(holder: PlannedTable, belongs: TableId, key: str = "") -> StopError:
    """Why a row of a source table is written nowhere."""
    return StopError(
        f"{name_of(holder)}{key}: by `{holder.home.part if holder.home else home.PART}` the row belongs in"
        f" {named(belongs)}",
        hint="move it there: the stream then continues by itself, and a copy with `migrate copy`; `migrate preflight`"
        " names more such rows",
        code=Code.ROUTE,
    )


def check_groups(tables: Iterable[PlannedTable]) -> None:
    """Each place is one table's or one group's, and the tables of a group are alike. Raises PreflightError."""
    for error in misfits(tables):
        raise error


def misfits(tables: Iterable[PlannedTable]) -> Iterator[PreflightError]:
    """What keeps each place from being one table's or one group's, and the tables of a group from being alike."""
    owners: dict[Place, PlannedTable] = {}
    leaders: dict[str, PlannedTable] = {}
    members: dict[str, list[TableId]] = {}
    for planned in tables:
        members.setdefault(planned.group, []).append(planned.table.id)
        if planned.group and (error := _unlike(leaders.setdefault(planned.group, planned), planned)) is not None:
            yield error
        of_others = [(place, owners.setdefault(place, planned)) for place in planned.places]
        for place, owner in of_others:
            of_one_group = planned.group and owner.group == planned.group
            if owner is not planned and not of_one_group and owner.noted_as.id != planned.noted_as.id:
                yield PreflightError(
                    f"{place} takes rows of {name_of(owner)} and of {name_of(planned)}, which are not of one group",
                    hint="give each its own target tables; or the same `group`, if one key is one row in both",
                )
                break  # the others say no more
    for group, leader in leaders.items():
        yield from _not_at_home(leader, members[group])


def _not_at_home(leader: PlannedTable, members: Iterable[TableId]) -> Iterator[PreflightError]:
    """Tables that the group and the sources' rule do not have in common."""
    if leader.home is None:
        return
    group = f"group '{leader.group}'"
    absent, never = home.unlike(leader.home, members)
    if absent:
        yield PreflightError(
            f"{group}: its rule at the sources (`home`) names {_some(absent)}, which is no table of the group",
            hint="name the table, at its source and with this group, under 'tables'; or correct `home`, or the names"
            " under source_databases",
        )
    if never:
        yield PreflightError(
            f"{group}: its rule at the sources (`home`) never gives {_some(never)}, so no row would belong there",
            hint="add the table to the nodes of `home`, or take it out of the group",
        )


def _some(tables: list[TableId]) -> str:
    return some([*map(named, tables)], _NAMED)


def _unlike(leader: PlannedTable, planned: PlannedTable) -> PreflightError | None:
    table, group = planned.table, f"group '{planned.group}'"
    if table.unique_keys and not planned.unique_apart:
        columns = ", ".join(table.unique_keys[0])
        return PreflightError(
            f"{group}: {name_of(planned)} has a further unique key ({columns}), whose values two sources may both hold",
            hint="set `unique_apart: true` if they cannot, because the key has all columns that choose the source; else"
            " drop the unique key, or give the table its own target tables",
        )
    if (what := _difference(leader, planned)) is not None:
        return PreflightError(
            f"{group}: {name_of(leader)} and {name_of(planned)} differ in {what}",
            hint="make them alike, or take one out of the group and give it its own target tables, before `init`; while"
            " a statement goes over the group, `migrate ddl status` names the tables that are left",
        )
    return None


def _difference(one: PlannedTable, other: PlannedTable) -> str | None:
    """What keeps two tables from being of one group."""
    if one.places != other.places:
        differing = {*one.places} ^ {*other.places}
        return f"their target tables: {min(differing)}" if differing else "the order of their target tables"
    if one.spec != other.spec:
        return "their sharding rule"
    if (one.home and one.home.spec) != (other.home and other.home.spec):
        return "their rule at the sources (`home`)"
    if one.topic != other.topic:
        return f"their topic: {one.topic or 'the main one'} and {other.topic or 'the main one'} (kafka.topics)"
    if one.table.key != other.table.key:
        return f"their key: {', '.join(one.table.key)} and {', '.join(other.table.key)}"
    if one.table.columns != other.table.columns:
        mine, theirs = one.table.columns, other.table.columns
        names = [column.name for column in mine if column not in theirs]
        names += [column.name for column in theirs if column not in mine and column.name not in names]
        return f"their columns: {', '.join(names) or 'the order'}"
    return None
