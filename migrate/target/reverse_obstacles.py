"""Tables whose rows could not be brought back after a cutover, as where they belong at the sources is not told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from migrate.model.table import Table
from migrate.target.routing import Plan, PlannedTable


def obstacles(plan: Plan) -> Iterator[tuple[Table, str, str]]:
    """Of a forward stream: each table that has no reverse stream, why, and what would give it one."""
    members = Counter(one.group for one in plan.tables.values() if one.group)
    for planned in plan.tables.values():
        if members[planned.group] > 1 and planned.home is None:
            why = "it shares its target tables with others, and where a row belongs at the sources is not told"
            mend = "give the group the sources' own rule (`home`); without it, it can be verified, and not be cut over"
        elif planned.rows is not None:
            why = "only part of its rows belongs to the migration ('rows')"
            mend = "a part of a table can be verified, and not be cut over by `migrate cutover`"
        elif len(planned.places) > 1 and not planned.unique_apart and (unheld := _unheld(planned)):
            why = (
                f"its unique key ({', '.join(unheld)}) holds in each of its {len(planned.places)} target tables,"
                " and not over all of them"
            )
            mend = (
                "say `unique_apart: true` of it where the application keeps its values unique over the target tables;"
                " else make the sharding columns part of it, or drop it at the source"
            )
        else:
            continue
        yield planned.table, why, mend


def _unheld(planned: PlannedTable) -> tuple[str, ...]:
    """A further unique key that two places may break together: one without all the columns that choose the place."""
    if planned.broadcast:  # each place has every value
        return ()
    choosing = set(planned.rule.columns)
    return next((key for key in planned.table.unique_keys if not choosing <= set(key)), ())
