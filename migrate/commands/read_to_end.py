"""What stands in a source's log and was not read, as nothing runs any more: it is published before a migration ends."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import sqlalchemy as sa

from migrate.model import process_names
from migrate.model.errors import PreflightError, ServerError
from migrate.publish.publisher import Publisher
from migrate.publish.start_position import SourceEnd, source_end
from migrate.settings import Settings
from migrate.state import position
from migrate.state.lease import HeldLease, Leases
from migrate.target.stored_plan import stored_plan

_SECONDS = 300.0
_LOOKS_SECONDS = 0.1


def read_on(settings: Settings, state: sa.Engine, source: str) -> None:
    """Publish what a source's log has up to now, as its publisher would. One that never ran reads nothing.

    Raises: PreflightError where its publisher runs; ServerError where this takes longer than five minutes, or the
    server does not answer; and whatever stops a publisher.
    """
    with state.connect() as connection:
        before = position.load(connection, settings.name, source)
    if before is None:
        return
    name, end = f"source '{source}'", source_end(position.where_read(state, settings).source(source))
    end.refuse_earlier(source, before)
    with closing(Leases(state, settings.name, settings.lease.seconds, quiet=True).start()) as leases:
        held = leases.take(process_names.publisher(source))
        if held is None:
            raise PreflightError(f"the publisher of {name} runs", hint="stop `migrate run`, then try again")
        _publish(settings, state, source, leases, held, end)


def _publish(
    settings: Settings, state: sa.Engine, source: str, leases: Leases, held: HeldLease, end: SourceEnd
) -> None:
    tables = {key[1:]: one for key, one in stored_plan(settings, state).tables.items() if key[0] == source}
    stop, failed = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            Publisher(settings, source, tables, state, leases, held, stop).run()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="reads on")
    thread.start()
    until = time.monotonic() + _SECONDS
    try:
        while thread.is_alive() and not _reached(settings, state, source, end):
            if time.monotonic() > until:
                raise ServerError(
                    f"the log of source '{source}' was not read to its end within {_SECONDS:g} s",
                    hint="start `migrate run`, wait for `migrate drain`, stop it, then try again",
                )
            thread.join(_LOOKS_SECONDS)
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]


def _reached(settings: Settings, state: sa.Engine, source: str, end: SourceEnd) -> bool:
    with state.connect() as connection:
        now = position.load(connection, settings.name, source)
    return now is not None and end.reached_by(now)
