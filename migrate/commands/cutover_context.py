"""What a cutover, or a rollback, works on: the two streams, the servers of both sides, and what stops writes there."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import sqlalchemy as sa

from migrate.commands import preconditions
from migrate.cutover import lost_server
from migrate.cutover.journal import unheard
from migrate.cutover.left_server import LeftServer
from migrate.cutover.reverse_settings import reversed_settings
from migrate.cutover.side_roles import WrittenDatabases
from migrate.cutover.write_block import WriteBlocks
from migrate.model.errors import PreflightError, ServerError
from migrate.settings import Settings
from migrate.state import migration as migrations
from migrate.state import position
from migrate.state.cutover import SwitchDirection
from migrate.state.switch import Side
from migrate.state.switch_lease import SwitchLease
from migrate.target.routing import Plan
from migrate.target.stored_plan import stored_plan

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CutoverContext:
    """settings: of the forward stream. stream: to the side that is entered; plan: of it. other: from that side. side:
    that is left; without: servers of it that are gone for good. written: what each stream writes, of both streams, but
    at servers that are gone.
    alone: what a run needs, and what ends one does not."""

    settings: Settings
    state: sa.Engine
    direction: SwitchDirection
    say: Say
    side: Side
    stream: Settings
    other: Settings
    plan: Plan
    without: frozenset[str]
    servers: tuple[LeftServer, ...]
    others: tuple[LeftServer, ...]
    written: tuple[WrittenDatabases, WrittenDatabases]
    blocks: WriteBlocks
    other_blocks: WriteBlocks
    alone: SwitchLease | None = None

    @classmethod
    def of(
        cls,
        settings: Settings,
        state: sa.Engine,
        direction: SwitchDirection,
        say: Say,
        without: Collection[str] = (),
        alone: SwitchLease | None = None,
        entered_without: Collection[str] = (),
    ) -> CutoverContext:
        """entered_without: servers of the side that is entered that are gone for good, once it has switched.

        Raises PreflightError without a reverse stream, or with applications elsewhere; ConfigError, ServerError.
        """
        say = unheard(say)
        with state.connect() as connection:
            migrations.get(connection, settings.name)
        plan_there = stored_plan(settings, state)
        back = reversed_settings(settings, plan_there)
        is_there = direction is SwitchDirection.TO_TARGETS
        side = Side.SOURCE if is_there else Side.TARGET
        with state.connect() as connection:
            known = migrations.find(connection, back.name) is not None
        if not known:
            preconditions.refuse_elsewhere(state, settings.name, side)  # a rollback before any cutover
            raise PreflightError(
                "the reverse stream is not there yet",
                hint="`migrate --reverse preflight`, `migrate --reverse init`, and `migrate --reverse run`",
            )
        plan_back = stored_plan(back, state)
        there, behind = (position.where_read(state, one) for one in (settings, back))
        stream, other = (there, behind) if is_there else (behind, there)
        plan, other_plan = (plan_there, plan_back) if is_there else (plan_back, plan_there)
        lost_server.known(without, stream)
        lost_server.known(entered_without, other)
        servers, gone_at = _there(stream, side, without)
        others, gone_there = _there(other, side.other, entered_without)
        return cls(
            settings,
            state,
            direction,
            say,
            side,
            stream,
            other,
            plan,
            frozenset(without),
            servers,
            others,
            (WrittenDatabases(stream, plan, gone_there), WrittenDatabases(other, other_plan, gone_at)),
            WriteBlocks(settings, state, side, servers, plan, say, frozenset(without)),
            WriteBlocks(settings, state, side.other, others, other_plan, say, frozenset(entered_without)),
            alone,
        )

    def close(self) -> None:
        for server in (*self.servers, *self.others):
            server.close()

    def still_ours(self, connection: sa.Connection) -> None:
        """Raises OwnershipLost when another run may be under way."""
        if self.alone is None:
            raise ServerError("a run needs to be alone")
        self.alone.still_ours(connection)


def _there(stream: Settings, side: Side, gone: Collection[str]) -> tuple[tuple[LeftServer, ...], list[str]]:
    """The servers of a side, which a stream reads, but those that are gone; and the addresses of these."""
    servers = tuple(LeftServer(one, side.value) for one in stream.sources if one.name not in gone)
    return servers, [one.address.lower() for one in stream.sources if one.name in gone]
