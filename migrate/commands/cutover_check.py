"""What a cutover looks at before it stops anybody, and again inside the freeze."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from migrate.commands import foreign, preconditions
from migrate.commands.cutover_context import CutoverContext
from migrate.cutover import entered_side, lost_server, side_roles, whole_logs
from migrate.cutover.catch_up import pass_up_to
from migrate.model.errors import Code, PreflightError, ServerError
from migrate.publish.start_position import SourceEnd
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.state import stop_reason
from migrate.state.cutover import SwitchDirection
from migrate.status import late_triggers, readiness
from migrate.verify.catch_up import CatchUp
from migrate.verify.recheck import hurrier

_NOTICED = 1.5  # seconds until every process has noticed that somebody is in a hurry


def check(context: CutoverContext) -> None:
    """Everything that keeps a run from beginning. Raises PreflightError, ServerError."""
    preconditions.refuse_elsewhere(context.state, context.settings.name, context.side)
    hurry(context, context.stream, context.other)
    streams = context.stream, context.other
    if context.without:
        lost_server.refuse_answering(context.stream.sources, context.without)
    else:
        foreign.compare(context.settings, context.state)
        # After a rollback the forward stream writes where applications have triggers by now.
        late_triggers.refuse_triggers(
            context.state, streams if context.direction is SwitchDirection.TO_TARGETS else streams[:1]
        )
    _refuse_unready(context)
    refuse_holes(context)
    side_roles.refuse_lacking(context.written)
    side_roles.align(context.written, context.state)
    refuse_closed(context)
    context.blocks.probe()
    context.other_blocks.probe_ending()


def _refuse_unready(context: CutoverContext) -> None:
    """As `preconditions.refuse_unready`, of both streams. Raises PreflightError, ServerError."""
    common = context.settings, context.state, context.direction, (context.stream, context.other), context.plan
    refuse = partial(preconditions.refuse_unready, *common, context.servers, context.without)
    try:
        refuse()
    except PreflightError:
        # A merge that asked before this run began who is given up may have come to nothing only now.
        if not (context.without and unblock(context)):
            raise
        refuse()


def refuse_closed(context: CutoverContext) -> None:
    """Raise PreflightError when applications could not write at the other side."""
    stop = context.settings.cutover.stop
    entered_side.refuse_closed(
        context.state, context.settings.name, context.side.other, context.others, context.servers, stop
    )


def refuse_holes(context: CutoverContext) -> None:
    """Raise PreflightError where changes may be missing from a log that is read, or may come to one that is left; not
    where a server is gone, as nothing is compared. ServerError."""
    if context.without:
        return
    whole_logs.refuse_replicas(context.servers)
    whole_logs.refuse_holes(context.state, context.stream.name, context.plan, context.servers)
    whole_logs.refuse_holes(context.state, context.other.name, context.written[1].plan, context.others)


def hurry(context: CutoverContext, *streams: Settings) -> None:
    """Have streams bring everything at once, so that a long `consume.merge_interval_seconds` is no lag."""
    seconds = context.settings.cutover.freeze_seconds + 2 * preconditions.PATIENCE
    for stream in streams:
        hurrier(stream, context.state)(seconds)
    time.sleep(_NOTICED)


def unblock(context: CutoverContext) -> bool:
    """Until the stream has gone on where it waited for rows of a server that is given up, and has what was logged, or
    `check.wait_seconds` are over: what holds it back then is for `check` to name. False: it waited for none.

    Raises ServerError.
    """
    stream, seconds = context.stream, context.settings.check.wait_seconds
    with context.state.connect() as connection:
        if not lost_server.waiting(connection, stream):
            return False
    context.say("the stream goes on without the rows of the lost server")
    hurrier(stream, context.state)(seconds)
    catch_up = CatchUp(stream, context.state, [server.name for server in context.servers])
    until = time.monotonic() + seconds
    while time.monotonic() < until and not catch_up.passed():
        with context.state.begin() as connection:
            halted = stop_reason.every(connection, stream.name)
            if any(stop_reason.is_partition(one.process) and one.code != Code.SOURCE for one in halted):
                break
            migrations.ask_retry(connection, stream.name)
        time.sleep(_NOTICED)
    return True


def drain(context: CutoverContext, seconds: float, ends: Mapping[str, SourceEnd] | None = None) -> CatchUp:
    """Until both streams have what was logged: the one that is entered by, up to these ends. Raises ServerError."""
    until = time.monotonic() + seconds
    catch_up = CatchUp(context.stream, context.state, [server.name for server in context.servers], ends)
    pass_up_to(catch_up, seconds)
    read_other_side(context, until - time.monotonic())
    if left := readiness.left_behind(context.stream, context.state, context.plan, context.without):
        raise ServerError(left, hint="`migrate status` says more")
    return catch_up


def read_other_side(context: CutoverContext, seconds: float) -> None:
    """Until the other stream has read the logs of the side that takes over: what somebody wrote there while it was
    standby would become its own with the switch. Raises ServerError when anything is listed.

    Where a server is gone nothing listed is compared, and nothing waited for.
    """
    if context.without:
        return
    catch_up = CatchUp(context.other, context.state, [server.name for server in context.others])
    # Half of the time: a freeze that ends first would not name the stream.
    pass_up_to(catch_up, seconds / 2, f"the stream from the {context.side.other}s")
    with context.state.connect() as connection:
        if listed := readiness.foreign_left(connection, context.settings.name):
            raise ServerError(listed, hint="run `migrate foreign compare`, then try again")
        if unread := readiness.not_carried(connection, context.other.name):
            raise ServerError(f"the stream from the {context.side.other}s: {unread}", hint="`migrate status` says more")
