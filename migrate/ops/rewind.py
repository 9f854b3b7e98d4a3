"""`migrate publish --from`: a publisher goes back to an earlier place in its source's log, as a new incarnation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import sqlalchemy as sa
import structlog

from migrate.model.coordinate import file_number
from migrate.model.errors import ConfigError, PreflightError
from migrate.model.place import parse_place
from migrate.mysql.connection import connect
from migrate.publish import start
from migrate.publish.begin import Finder
from migrate.publish.gtid import parse
from migrate.publish.publisher import lease_name
from migrate.publish.start import BinlogPosition
from migrate.settings import Settings
from migrate.state import position as positions
from migrate.state import rewind as rewinds
from migrate.state.lease import Leases
from migrate.state.position import Position

log = structlog.get_logger("migrate.publish")


def rewind(
    settings: Settings, state: sa.Engine, source: str, asked: str, confirm: Callable[[Position, Position], bool]
) -> Position:
    """Store the earlier place as the position, and say so in the state; returns the new position.

    Changes from there on are published again with higher coordinates, so that the consumer applies them once more.
    Args: confirm: asked with the old and the new position; nothing is changed when it says no.
    Raises: ConfigError for what is no place, PreflightError when the publisher runs, never ran, would skip changes, or
    nobody confirmed; StopError when the source's log does not have the place.
    """
    try:
        place = parse_place(asked)
    except ValueError as error:
        raise ConfigError(f"--from '{asked}' {error}") from None
    with closing(Leases(state, settings.name, settings.lease.seconds).start()) as leases:
        held = leases.acquire(lease_name(source))
        if held is None:
            raise PreflightError(
                f"the publisher of source '{source}' runs", hint="stop it, and wait until its lease has run out"
            )
        with state.connect() as connection:
            before = positions.load(connection, settings.name, source)
        if before is None:
            raise PreflightError(
                f"the publisher of source '{source}' never ran", hint="where it begins is sources[].start in the config"
            )
        with closing(connect(settings.source(source), f"source '{source}'")) as server:
            start.check_same_server(server, before)
            found = Finder(settings.source(source), before.replica_id, server).find(place)
            _refuse_to_skip(before, found, server.flavour)
        after = replace(
            before,
            incarnation=before.incarnation + 1,
            file=found.file,
            pos=found.pos,
            gtid_set=found.gtid_set,
            event_time=None,
        )
        if not confirm(before, after):
            raise PreflightError("not rewound", hint="answer yes, or say --yes")
        with state.begin() as connection:
            leases.still_ours(connection, held)
            positions.save(connection, settings.name, after)
            rewinds.note(connection, settings.name, before, after, asked)
    log.warning("rewound by hand", source=source, incarnation=after.incarnation, file=after.file, pos=after.pos)
    return after


def _refuse_to_skip(before: Position, found: BinlogPosition, flavour: str) -> None:
    """Forward means that changes in between never reach the target."""
    ahead = (file_number(found.file), found.pos) > (file_number(before.file), before.pos)
    if not ahead and found.gtid_set and before.gtid_set:
        ahead = not parse(found.gtid_set, flavour).within(parse(before.gtid_set, flavour))
    if ahead:
        raise PreflightError(
            f"{found.file}:{found.pos} {found.gtid_set} is ahead of the stored position {before.file}:{before.pos}"
            f" {before.gtid_set}; changes in between would be lost",
            hint="only an earlier place can be named",
        )
