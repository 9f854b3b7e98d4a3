"""What a cutover looks at before it stops anybody, and again inside the freeze."""

from __future__ import annotations

import time
from collections.abc import Mapping

from migrate.commands import foreign, preconditions
from migrate.commands.cutover_way import Way
from migrate.cutover import entered_side, lost_server, side_roles
from migrate.cutover.catch_up import pass_up_to
from migrate.model.errors import ServerError
from migrate.publish.start_position import SourceEnd
from migrate.settings import Settings
from migrate.state.cutover import Direction
from migrate.status import late_triggers, readiness
from migrate.verify.catch_up import Passing
from migrate.verify.recheck import hurrier

_NOTICED = 1.5  # seconds until every process has noticed that somebody is in a hurry


def check(way: Way) -> None:
    """Everything that keeps a run from beginning. Raises PreflightError, ServerError."""
    preconditions.refuse_elsewhere(way.state, way.settings.name, way.side)
    hurry(way, way.stream, way.other)
    streams = way.stream, way.other
    if way.without:
        lost_server.refuse_answering(way.stream.sources, way.without)
    else:
        foreign.compare(way.settings, way.state)
        # After a rollback the forward stream writes where applications have triggers by now.
        late_triggers.refuse_triggers(way.state, streams if way.direction is Direction.THERE else streams[:1])
    common = way.settings, way.state, way.direction
    preconditions.refuse_unready(*common, streams, way.plan, way.servers, way.without)
    side_roles.refuse_lacking(way.written)
    side_roles.align(way.written, way.state)
    refuse_closed(way)
    way.blocks.probe()
    way.other_blocks.probe_ending()


def refuse_closed(way: Way) -> None:
    """Raise PreflightError when applications could not write at the other side."""
    stop = way.settings.cutover.stop
    entered_side.refuse_closed(way.state, way.settings.name, way.side.other, way.others, way.servers, stop)


def hurry(way: Way, *streams: Settings) -> None:
    """Have streams bring everything at once, so that a long `consume.merge_interval_seconds` is no lag."""
    seconds = way.settings.cutover.freeze_seconds + 2 * preconditions.PATIENCE
    for stream in streams:
        hurrier(stream, way.state)(seconds)
    time.sleep(_NOTICED)


def drain(way: Way, seconds: float, ends: Mapping[str, SourceEnd] | None = None) -> Passing:
    """Until both streams have what was logged: the one that is entered by, up to these ends. Raises ServerError."""
    until = time.monotonic() + seconds
    passing = Passing(way.stream, way.state, [server.name for server in way.servers], ends)
    pass_up_to(passing, seconds)
    read_other_side(way, until - time.monotonic())
    if left := readiness.left_behind(way.stream, way.state, way.plan, way.without):
        raise ServerError(left, hint="`migrate status` says more")
    return passing


def read_other_side(way: Way, seconds: float) -> None:
    """Until the other stream has read the logs of the side that takes over: what somebody wrote there while it was
    standby would become its own with the switch. Raises ServerError when anything is listed.

    Where a server is gone nothing listed is compared, and nothing waited for.
    """
    if way.without:
        return
    passing = Passing(way.other, way.state, [server.name for server in way.others])
    # Half of the time: a freeze that ends first would not name the stream.
    pass_up_to(passing, seconds / 2, f"the stream from the {way.side.other}s")
    with way.state.connect() as connection:
        if listed := readiness.foreign_left(connection, way.settings.name):
            raise ServerError(listed, hint="run `migrate foreign compare`, then try again")
        if unread := readiness.not_carried(connection, way.other.name):
            raise ServerError(f"the stream from the {way.side.other}s: {unread}", hint="`migrate status` says more")
