"""Figures of the state beside the snapshot, for graphs: nobody decides by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from migrate.model import process_names
from migrate.settings import Settings
from migrate.state import check, chunks, cutover, database, failover, lease, verification
from migrate.state import migration as migrations


@dataclass(frozen=True, slots=True)
class LeaseMeasure:
    """A lease. holder: host and process id; taken: how often it was."""

    holder: str
    taken: int


@dataclass(frozen=True, slots=True)
class Measures:
    """Ages in seconds, by the state server; None where there is nothing of that age."""

    chunks: Mapping[str, int] = field(default_factory=dict)  # by state
    leases: Mapping[str, LeaseMeasure] = field(default_factory=dict)  # the last holder of each, also once it ran out
    failovers: Mapping[str, int] = field(default_factory=dict)  # by source, how many
    verified: verification.FinishedVerification | None = None  # the newest finished verification
    verified_age: float | None = None
    certificate_age: float | None = None  # since the last clean verification of all tables began
    check: check.FinishedCheck | None = None
    check_age: float | None = None
    freeze_seconds: Mapping[str, float] = field(default_factory=dict)  # of the last switch, by direction


def read(connection: sa.Connection, settings: Settings) -> Measures:
    name = settings.name
    now = connection.execute(sa.select(database.now)).scalar_one()
    known = migrations.get(connection, name)
    publishers = (process_names.publisher(source.name) for source in settings.sources)
    wanted = {*process_names.SINGLE, *publishers, *(part.lease for part in known.partitions)}
    held = lease.table.c
    leases = connection.execute(sa.select(held.name, held.holder, held.epoch).where(held.migration == name))
    verified, checked = verification.latest(connection, name), check.latest(connection, name)
    since = verification.equal_since(connection, name)
    began = verification.started(connection, since) if since else None
    return Measures(
        chunks=_chunks(connection, name),
        leases={row[0]: LeaseMeasure(row[1].rpartition(":")[0], int(row[2])) for row in leases if row[0] in wanted},
        failovers={source.name: len(failover.every(connection, name, source.name)) for source in settings.sources},
        verified=verified,
        verified_age=(now - verified.finished).total_seconds() if verified else None,
        certificate_age=(now - began).total_seconds() if began else None,
        check=checked,
        check_age=(now - checked.finished).total_seconds() if checked else None,
        freeze_seconds=_freezes(connection, name),
    )


def _chunks(connection: sa.Connection, name: str) -> dict[str, int]:
    of = chunks.table.c
    rows = connection.execute(sa.select(of.state, sa.func.count()).where(of.migration == name).group_by(of.state))
    return {str(state): int(count) for state, count in rows}


def _freezes(connection: sa.Connection, name: str) -> dict[str, float]:
    of = cutover.runs.c
    rows = connection.execute(
        sa.select(of.direction, of.freeze_seconds)
        .where(of.migration == name, of.freeze_seconds.is_not(None))
        .order_by(of.run)
    )
    return {str(direction): float(seconds) for direction, seconds in rows}
