"""Groups of tables (`tables[].group`) at `migrate init`: which changes of one are taken, and when."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from migrate.commands import repartition
from migrate.commands.table_changes import TableChanges
from migrate.model.errors import PreflightError
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.state import phase, position, schema_history
from migrate.state.phase import Phase
from migrate.target.groups import name_of
from migrate.target.routing import Plan


def refuse_changes(connection: sa.Connection, plan: Plan, changes: TableChanges) -> None:
    """A group stays whole, and each of its rows stays chosen. Raises PreflightError."""
    for id_ in sorted(changes.conditions):
        planned = plan.tables[id_]
        if planned.group:
            raise PreflightError(
                f"{name_of(planned)}: the row conditions of a table of a group cannot change: nothing tells which rows"
                " of the shared target tables are its own",
                hint="restore them, or start a new migration under another name",
            )
    if not changes.gone:
        return
    name = plan.settings.name
    bases, first = phase.base_hashes(connection, name), schema_history.first(connection, name)
    leaders = {planned.group: planned for planned in plan.tables.values() if planned.group}
    for id_ in sorted(changes.gone):
        for group, leader in leaders.items():
            was = replace(leader, table=changes.known[id_], first=first.get(id_))
            if bases.get(id_) == was.base_hash:
                raise PreflightError(
                    f"{id_[0]}/{id_[1]}.{id_[2]} cannot leave group '{group}': its rows are among those of the others",
                    hint="put it back, or take out all tables of the group",
                )


def refuse_early(settings: Settings, state: sa.Engine, plan: Plan, changes: TableChanges) -> None:
    """A table joins a group that has nothing in flight: what is noted of deleted keys does not speak of its rows.

    The caller holds every lease. Raises PreflightError.
    """
    for id_ in sorted(changes.joining):
        others = [one for one in plan.members(plan.tables[id_]) if one.table.id in changes.known]
        with state.connect() as connection:
            if all(position.load(connection, settings.name, one.table.source) is None for one in others):
                continue
            stages = [(one, phase.get(connection, settings.name, one.table).phase) for one in others]
            known = migrations.get(connection, settings.name)
        for one, stage in stages:
            if stage is not Phase.COPIED:
                raise PreflightError(
                    f"{name_of(plan.tables[id_])} cannot join group '{one.group}' yet: {name_of(one)} is not copied",
                    hint="continue without it: take it out of the config, `migrate run`, `migrate copy`,"
                    " `migrate drain`; then put it back and run this again",
                )
        repartition.refuse_unless_drained(settings, state, known, plan)
