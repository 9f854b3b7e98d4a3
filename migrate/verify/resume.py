"""Which unfinished verification `migrate verify` goes on with, and what it must have in common with it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
import structlog

from migrate.model.errors import PreflightError
from migrate.mysql.connection import connect
from migrate.settings import Settings
from migrate.state import compared, phase, position, reached, verification_progress
from migrate.state.verification_progress import Unfinished
from migrate.target.routing import PlannedTable
from migrate.verify import certificate

log = structlog.get_logger("migrate.verify")
_LOOK_SECONDS = 0.5
"""Between two looks at a run that may have a process."""
_TOLD = {
    "targets": "an address of a target",
    "json_types": "verify.json_types",
    "repair": "--repair",
    "forgotten": "what was known to be equal",
    "method": "the way of comparing",
}


def asked(
    connection: sa.Connection, settings: Settings, tables: Sequence[PlannedTable], repair: bool
) -> dict[str, Any]:
    """What a run is for. Where any of it is another, what was compared before proves nothing now."""
    stages = phase.stages(connection, settings.name)
    attempts = {one.table.id: stages.get(one.table.id, phase.UNKNOWN).attempt for one in tables}
    return {
        "tables": {"/".join(one.table.id): _mark(one, attempts[one.table.id]) for one in tables},
        "targets": {target.name: f"{target.host}:{target.port}" for target in settings.targets},
        "json_types": settings.verify.json_types,
        "repair": repair,
        "forgotten": compared.times_forgotten(connection, settings.name),
        "method": certificate.METHOD,
    }


def _mark(planned: PlannedTable, attempt: int) -> list[str | int]:
    """A table's rule, its columns as they are now, and which copy of it there is."""
    columns = [asdict(column) for column in planned.table.columns]
    text = json.dumps([columns, planned.table.key], sort_keys=True, default=str)
    return [planned.rule_hash, hashlib.sha256(text.encode()).hexdigest(), attempt]


def read_at(connection: sa.Connection, settings: Settings, tables: Sequence[PlannedTable]) -> dict[str, list[Any]]:
    """By source: the server that is read, and the incarnation, which a failover and a rewind change."""
    found: dict[str, list[Any]] = {}
    for name in names(tables):
        at, address = position.load(connection, settings.name, name), settings.source(name).address
        found[name] = [address, at.server_id, at.server_uuid, at.incarnation] if at else [address]
    return found


def binlog_ends(settings: Settings, tables: Sequence[PlannedTable]) -> dict[str, str]:
    """By source: where its log ends now."""
    ends: dict[str, str] = {}
    for name in names(tables):
        connection = connect(settings.source(name), f"source '{name}'")
        try:
            ends[name] = certificate.binlog_end(connection)
        finally:
            connection.close()
    return ends


def names(tables: Sequence[PlannedTable]) -> list[str]:
    """The tables' sources, each once."""
    return list(dict.fromkeys(name for planned in tables for name in planned.read_at))


def find(
    settings: Settings,
    state: sa.Engine,
    wanted: Mapping[str, Any],
    servers: Mapping[str, list[Any]],
    sleep: Callable[[float], None] = time.sleep,
) -> Unfinished | None:
    """The newest unfinished run, taken over, when it is for the same and no process has it; None: begin anew.

    A run that was heard of lately is watched for `lease.seconds`. Raises PreflightError when it has a process.
    """
    while (found := _newest(settings, state)) is not None:
        if reason := _lost(settings, state, found) or _otherwise(found, wanted, servers):
            log.info("a new verification begins", unfinished=found.id, reason=reason)
            return None
        if not _fell_silent(settings, state, found, sleep):
            continue
        with state.begin() as connection:
            if not verification_progress.load(connection, found.id):
                return None
            if verification_progress.take(connection, found):
                return found
    return None


def _lost(settings: Settings, state: sa.Engine, found: Unfinished) -> str:
    """What a target lost since a run began may have been compared before: the run could never be certified."""
    with state.connect() as connection:
        lost = reached.lost_since(connection, settings.name, found.id)
    return f"since it began {lost[0]}" if lost else ""


def _newest(settings: Settings, state: sa.Engine) -> Unfinished | None:
    with state.connect() as connection:
        return verification_progress.newest(connection, settings.name, settings.lease.seconds)


def _fell_silent(settings: Settings, state: sa.Engine, found: Unfinished, sleep: Callable[[float], None]) -> bool:
    """Whether the run's process is gone; False when the run ended meanwhile, or another one is the newest."""
    ends = time.monotonic() + settings.lease.seconds  # also where the server's clock was set back
    while not found.silent and time.monotonic() < ends:
        sleep(_LOOK_SECONDS)
        now = _newest(settings, state)
        if now is None or now.id != found.id or now.touched is None:
            return False
        if now.touched != found.touched:
            raise PreflightError(
                f"verification {found.id} of migration '{settings.name}' is running",
                hint="wait for it or end it; `migrate verify --anew` begins another one beside it",
            )
    return True


def _otherwise(found: Unfinished, wanted: Mapping[str, Any], servers: Mapping[str, list[Any]]) -> str:
    """Why what was compared before is of no use; "" when it is."""
    before, tables = found.asked, wanted["tables"]
    if before["tables"].keys() != tables.keys():
        return "it is for other tables"
    if changed := [name for name, mark in tables.items() if before["tables"][name] != mark]:
        return f"rule, columns or copy changed since: {', '.join(changed[:3])}"
    for name, told in _TOLD.items():
        if before.get(name) != wanted[name]:
            return f"{told} changed since"
    moved = [name for name, at in servers.items() if found.sources.get(name, {}).get("read_at") != at]
    return f"source '{moved[0]}' is read at another server, or was rewound" if moved else ""
