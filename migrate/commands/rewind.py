"""`migrate publish --from`: a publisher goes back to an earlier place in its source's log, as a new incarnation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import sqlalchemy as sa
import structlog

from migrate.model import process_names
from migrate.model.coordinate import in_log
from migrate.model.errors import ConfigError, PreflightError
from migrate.model.log_position import parse_place
from migrate.mysql.connection import connect
from migrate.mysql.readable import BinlogPosition
from migrate.publish.configured_start import StartFinder
from migrate.publish.log.gtid import compact, parse
from migrate.publish.schema.following import begin_incarnation
from migrate.settings import Settings
from migrate.state import acknowledged, compared, leading, outstanding, unacknowledged
from migrate.state import position as positions
from migrate.state import rewind as rewinds
from migrate.state.compared import Because
from migrate.state.lease import HeldLease, Leases
from migrate.state.position import Position
from migrate.state.unacknowledged import Noted

log = structlog.get_logger("migrate.publish")


def rewind(
    settings: Settings, state: sa.Engine, source: str, asked: str, confirm: Callable[[Position, Position], bool]
) -> Position:
    """Store the earlier place as the position, and say so in the state; returns the new position.

    Changes from there on are published again with higher coordinates, so that the consumer applies them once more.
    Args: confirm: asked with the old and the new position; nothing is changed when it says no.
    Raises: ConfigError for what is no place, PreflightError when the publisher runs, never ran, would skip changes, or
    nobody confirmed, when the other stream leads, and while a cutover is under way; StopError when the source's log
    does not have the place, or applications left the source and came back behind it.
    """
    try:
        place = parse_place(asked)
    except ValueError as error:
        raise ConfigError(f"--from '{asked}' {error}") from None
    with _in_its_place(settings, state, source) as (leases, held):
        with state.begin() as connection:
            leading.refuse_rewind(connection, settings.name)
            before = positions.load(connection, settings.name, source)
            reached = before and rewinds.published_up_to(before, rewinds.every(connection, settings.name, source))
        if before is None or reached is None:
            raise PreflightError(
                f"the publisher of source '{source}' never ran",
                hint="set where it begins with sources[].start in the config",
            )
        there = positions.where_read(state, settings).source(source)  # whose publisher goes nowhere meanwhile
        with closing(connect(there, f"source '{source}'")) as server:
            found = StartFinder(there, before.replica_id, server).find(place)
            _refuse_to_skip(reached, found, server.flavour)
        after = replace(
            before,
            incarnation=before.incarnation + 1,
            file=found.file,
            pos=found.pos,
            gtid_set=found.gtid_set,
            event_time=None,
            file_created=0,
        )
        if not confirm(before, after):
            raise PreflightError("not rewound", hint="answer yes, or use --yes")
        with state.begin() as connection:
            leases.still_ours(connection, held)
            leading.refuse_rewind(connection, settings.name)
            positions.save(connection, settings.name, after)
            noted = unacknowledged.load(connection, settings.name, source)
            unacknowledged.put(connection, settings.name, source, _sent(noted, before))
            rewinds.note(connection, settings.name, before, after, asked)
            acknowledged.forget(connection, settings.name, source)
            # Rows may come back that no message takes away again.
            compared.forget(connection, settings.name, Because.REWOUND, source)
            begin_incarnation(connection, settings.name, after, None, back=True)
    log.warning("rewound by hand", source=source, incarnation=after.incarnation, file=after.file, pos=after.pos)
    return after


def clear_batches(settings: Settings, state: sa.Engine, source: str) -> int:
    """Forget the list of batches that were outstanding when the publisher was killed; returns how many.

    The position stays: they are published again from it. Raises PreflightError when the publisher runs.
    """
    with _in_its_place(settings, state, source) as (leases, held), state.begin() as connection:
        leases.still_ours(connection, held)
        return outstanding.clear(connection, settings.name, source)


@contextmanager
def _in_its_place(settings: Settings, state: sa.Engine, source: str) -> Iterator[tuple[Leases, HeldLease]]:
    """Hold the publisher's lease, so that none runs meanwhile."""
    with closing(Leases(state, settings.name, settings.lease.seconds, quiet=True).start()) as leases:
        held = leases.take(process_names.publisher(source))
        if held is None:
            raise PreflightError(
                f"the publisher of source '{source}' runs", hint="stop it, and wait until its lease has run out"
            )
        yield leases, held


def _sent(noted: Noted, before: Position) -> Noted:
    """What was published beyond an earlier position: all up to now. What the topics have beyond that is looked for by
    the next start."""
    gtids = compact({noted.gtids, before.gtid_set})
    return replace(noted, gtids=gtids, newest=max(noted.newest, before.event_seconds))


def _refuse_to_skip(before: Position, found: BinlogPosition, flavour: str) -> None:
    """Forward means that changes in between never reach the target."""
    ahead = in_log(found.file, found.pos) > in_log(before.file, before.pos)
    if not ahead and found.gtid_set and before.gtid_set:
        ahead = not parse(found.gtid_set, flavour).within(parse(before.gtid_set, flavour))
    if ahead:
        raise PreflightError(
            f"{found.file}:{found.pos} {found.gtid_set} is ahead of the stored position {before.file}:{before.pos}"
            f" {before.gtid_set}; changes in between would be lost",
            hint="only an earlier place can be named",
        )
