"""What keeps a stream from being switched: everything must run, be copied, and be at the target."""

from __future__ import annotations

from contextlib import closing

import sqlalchemy as sa

from migrate.model.errors import MigrateError
from migrate.model.words import counted
from migrate.mysql.errors import explained
from migrate.ops import status
from migrate.ops.runtime import stored_plan
from migrate.ops.status import Status
from migrate.publish.publisher import lease_name
from migrate.settings import Settings
from migrate.state.phase import Phase
from migrate.target import ledger, parked
from migrate.target.plan import Plan, TargetPool


def problems(settings: Settings, state: sa.Engine, plan: Plan | None, max_lag_seconds: float) -> list[str]:
    """Each in one line; none when the stream is ready."""
    plan = plan or stored_plan(settings, state)
    try:
        now = status.read(settings, state, plan=plan)
    except MigrateError as error:
        return [error.message]
    return standing_in_the_way(settings, now, max_lag_seconds) + [
        f"table {name} is {stage}" for name, stage in now.tables.items() if stage != Phase.COPIED.value
    ]


def standing_in_the_way(settings: Settings, now: Status, max_lag_seconds: float) -> list[str]:
    """What keeps a stream from being at its target, by its status."""
    found = [f"{one['process']} stands still: {one['reason']}" for one in now.halted]
    found += [f"source '{one.name}': {one.problem}" for one in now.sources if one.problem]
    found += [f"topic {name} is not at the broker" for name in sorted(now.gone)]
    found += [
        f"no publisher reads source '{source.name}'"
        for source in settings.sources
        if lease_name(source.name) not in now.leading
    ]
    if idle := [part for part in now.partitions if not part.owner]:
        found.append(f"no consumer works on {counted(len(idle), 'partition')}")
    found += [f"source '{one.name}' is replayed up to {one.replaying}" for one in now.sources if one.replaying]
    found += [f"source '{one.name}': {one.doubt}" for one in now.sources if one.doubt]
    if now.lag_seconds > max_lag_seconds:
        found.append(f"it is {now.lag_seconds:.1f} s behind, above cutover.max_lag_seconds ({max_lag_seconds:g})")
    aside = {
        "empty delete waits": now.empty_deletes,
        "change is parked": now.parked,
        "key is skipped": now.skips,
        "message is left out": now.left_out,
        "row is left out of the stream": len(now.oversized),
    }
    found += [f"{count} × {what}" for what, count in aside.items() if count]
    return found


def left_behind(settings: Settings, plan: Plan) -> str:
    """What is not at the places although its messages are consumed; "" for nothing. Raises ServerError."""
    with closing(TargetPool(settings)) as pool, explained("targets"):
        for database in plan.used_databases:
            connection = pool.get(database)
            if (waiting := ledger.waiting(connection, settings.name)) or (
                aside := parked.count(connection, settings.name)
            ):
                what = (
                    f"{counted(waiting, 'delete')} that found nothing"
                    if waiting
                    else f"{counted(aside, 'parked change')}"
                )
                return f"{database.target}/{database.database} has {what}"
    return ""
