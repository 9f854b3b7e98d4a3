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
class Measures:
    """Ages in seconds, by the state server; None where there is nothing of that age."""

    chunks: Mapping[str, int] = field(default_factory=dict)  # by state
    leases: Mapping[str, lease.LastHolder] = field(
        default_factory=dict
    )  # the last holder of each, also once it ran out
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
    verified, checked = verification.latest(connection, name), check.latest(connection, name)
    since = verification.equal_since(connection, name)
    began = verification.started(connection, since) if since else None
    return Measures(
        chunks=chunks.by_state(connection, name),
        leases={held: last for held, last in lease.last_holders(connection, name).items() if held in wanted},
        failovers={source.name: len(failover.every(connection, name, source.name)) for source in settings.sources},
        verified=verified,
        verified_age=(now - verified.finished).total_seconds() if verified else None,
        certificate_age=(now - began).total_seconds() if began else None,
        check=checked,
        check_age=(now - checked.finished).total_seconds() if checked else None,
        freeze_seconds=cutover.freezes(connection, name),
    )
