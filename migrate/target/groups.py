"""Groups: source tables that share their target tables (invariant sources-never-compare, docs/decisions/0018)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from migrate.model.errors import PreflightError
from migrate.target.routing import Place, PlannedTable


def name_of(planned: PlannedTable) -> str:
    """A table with its source, as messages name it."""
    return f"{planned.table.source}/{planned.table.full_name}"


def check_groups(tables: Iterable[PlannedTable]) -> None:
    """Each place is one table's or one group's, and the tables of a group are alike. Raises PreflightError."""
    for error in misfits(tables):
        raise error


def misfits(tables: Iterable[PlannedTable]) -> Iterator[PreflightError]:
    """What keeps each place from being one table's or one group's, and the tables of a group from being alike."""
    owners: dict[Place, PlannedTable] = {}
    leaders: dict[str, PlannedTable] = {}
    for planned in tables:
        if planned.group and (error := _unlike(leaders.setdefault(planned.group, planned), planned)) is not None:
            yield error
        of_others = [(place, owners.setdefault(place, planned)) for place in planned.places]
        for place, owner in of_others:
            if owner is not planned and not (planned.group and owner.group == planned.group):
                yield PreflightError(
                    f"{place} takes rows of {name_of(owner)} and of {name_of(planned)}, which are not of one group",
                    hint="give each its own target tables; or the same `group`, if one key is one row in both",
                )
                break  # the others say no more


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
            hint="make them alike, or take one out of the group and give it its own target tables",
        )
    return None


def _difference(one: PlannedTable, other: PlannedTable) -> str | None:
    """What keeps two tables from being of one group."""
    if one.places != other.places:
        differing = {*one.places} ^ {*other.places}
        return f"their target tables: {min(differing)}" if differing else "the order of their target tables"
    if one.spec != other.spec:
        return "their sharding rule"
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
