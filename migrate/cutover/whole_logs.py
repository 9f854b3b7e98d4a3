"""Whether the logs that are read have every change: since a clean verification nothing else tells of one that lacks.

A server that was restarted since its publisher looked may have written without its log in between
(docs/decisions/0034).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

import sqlalchemy as sa

from migrate.cutover.left_server import LeftServer, side_by_side
from migrate.model.errors import PreflightError
from migrate.mysql import capabilities, left_out
from migrate.mysql.errors import explained
from migrate.mysql.left_out import LogGap
from migrate.mysql.server_start import started
from migrate.state import server_start
from migrate.state.database import in_transaction
from migrate.target.routing import Plan

_VERIFY = "`migrate verify`, all tables, then again"


def refuse_holes(state: sa.Engine, stream: str, plan: Plan, servers: Sequence[LeftServer]) -> None:
    """Raise PreflightError where a log lacks changes, or may: what was compared counts no more. ServerError.

    stream: by name, whose sources these servers are; plan: of it.
    """

    def look(server: LeftServer) -> tuple[int, LogGap | None]:
        databases = {id_[1] for id_ in plan.tables if id_[0] == server.name}
        with explained(server.acts.name):
            return started(server.acts), left_out.of(server.acts, databases)

    for server, (since, lacks) in zip(servers, side_by_side(look, servers), strict=True):
        if lacks is not None:
            lacking = partial(server_start.note_left_out, migration=stream, source=server.name, told=lacks.told)
            in_transaction(state, lacking, threading.Event())
            raise PreflightError(f"not ready: {lacks.told}", hint=f"{lacks.mend}; then {_VERIFY}")
        noted = partial(server_start.note, migration=stream, source=server.name, started=since)
        if in_transaction(state, noted, threading.Event()):
            raise PreflightError(
                f"not ready: {server.acts.name} was restarted, and may have written rows meanwhile that its log does"
                " not have",
                hint=_VERIFY,
            )


def refuse_replicas(servers: Sequence[LeftServer]) -> None:
    """Raise PreflightError where a server that is left replicates: to stop writes there stops nobody who writes at the
    server before it, and what arrives after the switch is nobody's. ServerError."""

    def look(server: LeftServer) -> tuple[list[str], str]:
        with explained(server.acts.name):
            return left_out.receives_from(server.acts), left_out.written_beside(server.acts)

    for server, (others, beside) in zip(servers, side_by_side(look, servers), strict=True):
        if others:
            stop = capabilities.stop_replica(server.acts)
            raise PreflightError(
                f"not ready: {server.acts.name} replicates from {', '.join(others)}: what is written there would arrive"
                " after the switch",
                hint=f"stop the applications there, let this server catch up, run `{stop}` on it, then try again",
            )
        if beside:
            raise PreflightError(
                f"not ready: applications may write at {beside} as well as at {server.acts.name}, and nobody stops them"
                " there: what is written there would arrive after the switch",
                hint="stop the applications there, and take these servers out of the cluster or group (of a group:"
                " `SELECT group_replication_switch_to_single_primary_mode(@@server_uuid)`), then try again",
            )
