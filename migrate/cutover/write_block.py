"""How writes are stopped at the side that is left, and given back (`cutover.stop`).

What ends a block is noted in the state before anything is done, so that whoever comes after a kill can end it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from functools import partial

import sqlalchemy as sa
import structlog

from migrate.cutover import account_grants, acknowledgements, definers, exempt_accounts, hook, privileges, read_only
from migrate.cutover.left_server import LeftServer, OtherSession, side_by_side
from migrate.model.errors import MigrateError, PreflightError, ServerError
from migrate.mysql.errors import LOCK_WAIT, number
from migrate.preflight.result import Verdict
from migrate.preflight.server import grants as needed_grants
from migrate.settings import Cutover, Settings
from migrate.state import cutover, switch
from migrate.state.cutover import Block
from migrate.state.switch import Side, Writes
from migrate.target.routing import Plan

log = structlog.get_logger("migrate.cutover")
Say = Callable[[str], None]
_HOOK = "hook"
_SHORT = 2.0  # seconds that one server is waited for while another one may be closed
_BACKUP = "accounts cannot be changed during a backup or FLUSH TABLES WITH READ LOCK: SHOW PROCESSLIST names who waits"
_NO_ACCOUNT = frozenset({1133, 1141, 1410})
_WAITED = frozenset({LOCK_WAIT, 2013})  # by the server's clock, by ours
_DENIED = frozenset({1044, 1045, 1142, 1227, 1290})


class WriteBlocks:
    """Stops and gives back writes of applications at the servers of one side."""

    def __init__(
        self,
        settings: Settings,
        state: sa.Engine,
        side: Side,
        servers: Sequence[LeftServer],
        plan: Plan,
        say: Say,
        without: Collection[str] = (),
    ) -> None:
        """settings: of the forward stream; plan: with the tables of that side; without: servers that are
        gone, at which nothing can be ended: that stays noted."""
        self._name = settings.name
        self._cutover: Cutover = settings.cutover
        self._run_dir = settings.run_dir
        self._reached = settings.state
        self._state = state
        self._side = side
        self._servers = servers
        self._databases = _databases(plan)
        self._say = say
        self._without = without
        self._placed: list[Block] = []  # by this process
        self._lifted: set[str] = set()  # of which servers, again
        self._run = 0  # of `stop`
        self._still: Callable[[sa.Connection], None] | None = None  # of `stop`

    def probe(self) -> None:
        """See that writes could be stopped, without doing so. Raises PreflightError, ServerError."""
        self._refuse_denied((server, self._cutover.stop) for server in self._servers)
        for server in self._servers:
            match self._cutover.stop:
                case "read_only":
                    read_only.probe(server)
                    read_only.refuse_closed_state(server, self._reached)
                    if told := exempt_accounts.told(server, self._cutover.accounts):
                        self._say(f"{self._side} {told}")
                case "revoke":
                    _, back = account_grants.revocations(server, *self._of(server))
                    account_grants.refuse_others(server, *self._of(server))
                    if told := definers.told(server, *self._of(server)):
                        self._say(f"{self._side} {told}")
                    for statement in back:  # they have it: it changes nothing
                        server.execute(statement, self._cutover.wait_seconds)
                case _:
                    pass
        if self._cutover.stop == "application":
            with self._state.connect() as connection:
                known = switch.every_application(connection, self._name)
            if not known:
                raise PreflightError(
                    "no application has acknowledged a version of the switch",
                    hint="with cutover.stop: application every application writes its row of the table `application`:"
                    " docs/switch.md#to-acknowledge",
                )

    def probe_ending(self) -> None:
        """See that what is in place at this side could be ended. Raises PreflightError, ServerError."""
        with self._state.connect() as connection:
            noted = {block.server: block.method for block in cutover.blocked(connection, self._name, self._side)}
        if _HOOK in noted and not self._cutover.hooks.writes:
            raise PreflightError(
                f"the {self._side}s were closed by a hook, and the config has none to open them",
                hint="put cutover.hooks.writes back",
            )
        self._refuse_denied((server, noted[server.name]) for server in self._servers if server.name in noted)

    def stop(self, run: int, still_ours: Callable[[sa.Connection], None]) -> None:
        """Stop writes. Raises PreflightError, ServerError; what was done until then is noted and can be ended.

        run: its number. still_ours: raises when this run is not the one that may; asked in the transaction that begins
        it, and in those that note what is done at each server.
        """
        self._run, self._still = run, still_ours
        with self._state.begin() as connection:
            still_ours(connection)
            now = switch.put(connection, self._name, self._side, Writes.CLOSED)
        match self._cutover.stop:
            case "read_only":
                for server in self._servers:
                    self._read_only(server)
            case "revoke":
                for server in self._servers:
                    self._revoke(server)
            case "application":
                acknowledgements.await_all(self._state, self._name, now.version, self._cutover.acknowledge_seconds)
            case "hook":
                self._note(_HOOK, "hook", ())
                self._hook("close")

    def refuse_opened(self) -> None:
        """Raise ServerError where a server that was closed is open again: a process of an earlier run may have opened
        it, which hung while it gave writes back."""
        stop = self._cutover.stop
        for server in self._servers:
            opened = self._standing(server) if stop == "revoke" else []
            if stop == "read_only" and not read_only.is_on(server):
                opened = [read_only.OPEN]
            if opened:
                raise ServerError(
                    f"{self._side} '{server.name}': writes are not stopped any more: {'; '.join(opened)}",
                    hint="somebody allowed them meanwhile: find out who, then try again",
                )

    def give_back(self, still: Callable[[sa.Connection], None]) -> None:
        """End what was put in place at this side, also by an earlier run, at all servers side by side.

        What this process did after somebody else had ended its run is not noted any more, and is ended too.
        still: raises when this is not ours to do any more. Raises ServerError; what could not be ended stays noted.
        """
        with self._state.connect() as connection:
            found = cutover.blocked(connection, self._name, self._side)
        noted = {block.server for block in found}
        found += [block for block in self._placed if block.server not in noted]
        for block in found:
            if block.server in self._without:
                by_hand = "; ".join(block.ending)
                self._say(
                    f"{self._side} '{block.server}' is gone; if it comes back, this allows writes there: {by_hand}"
                )
        found = [block for block in found if block.server not in self._without]
        outcomes = side_by_side(partial(self._given_back, still), found)
        failed = {block.server: error for block, error in zip(found, outcomes, strict=True) if error is not None}
        if failed:
            first = next(iter(failed.values()))
            names = ", ".join(f"'{name}'" for name in failed)
            by_hand = "; ".join(statement for block in found if block.server in failed for statement in block.ending)
            denied = first.__cause__ is not None and number(first.__cause__) in _DENIED
            hint = (
                f"run there, with an account that may: {by_hand}; then run the same command again"
                if denied
                else first.hint
            )
            raise ServerError(f"writes are still stopped at {names}: {first.message}", hint=hint)

    @property
    def by_hand(self) -> str:
        """What would end what this process put in place."""
        return "; ".join(f"'{block.server}': {'; '.join(block.ending)}" for block in self._placed) or "nothing"

    def _given_back(self, still: Callable[[sa.Connection], None], block: Block) -> ServerError | None:
        """At one server; what kept it from that, as the others are not to wait for this one."""
        with self._state.begin() as connection:
            still(connection)
        try:
            if block.server not in self._lifted:
                self._end(block)
        except ServerError as error:
            return error
        with self._state.begin() as connection:
            still(connection)  # the server may have taken long, and a later run have stopped writes there by now
            cutover.drop_block(connection, self._name, block)
        self._say(f"{self._side} '{block.server}': writes given back")
        return None

    def lift(self) -> None:
        """End what this process put in place, without the state, side by side and without long waits for a server that
        hangs; `give_back` takes the notes away, and ends the rest."""

        def lifted(block: Block) -> None:
            try:
                self._end(block)
                self._lifted.add(block.server)
            except MigrateError as error:
                log.warning("writes are not given back yet", server=block.server, reason=error.message)

        with ExitStack() as until:
            for server in self._servers:
                until.enter_context(server.in_a_hurry(_SHORT))
            side_by_side(lifted, self._placed)

    def _end(self, block: Block) -> None:
        if block.method == "hook":
            self._hook("open")
            return
        server = next((one for one in self._servers if one.name == block.server), None)
        if server is None:
            raise ServerError(
                f"'{block.server}' is not in the config any more",
                hint="put it back; or run there: " + "; ".join(block.ending),
            )
        needless: Collection[str] = ()
        if block.method == "read_only":
            # One that still waits, of a process that was killed, would come after.
            server.end_statement(read_only.CLOSE)
            needless = () if read_only.is_on(server) else block.ending
        elif block.method == "revoke":  # which may have been refused, as the GRANT would be
            for back in block.ending:  # one that still waits, as for a backup
                server.end_statement(account_grants.taking(back))
                server.end_statement(back)
            needless = self._standing(server)
        for statement in block.ending:
            if statement in needless:
                continue
            try:
                server.execute(statement, self._cutover.wait_seconds)
            except ServerError as error:
                if error.__cause__ is None or number(error.__cause__) not in _NO_ACCOUNT:
                    raise
                self._say(f"{self._side} '{block.server}': an account is not there any more: {statement}")

    def _note(self, server: str, method: str, ending: Sequence[str]) -> None:
        block = Block(self._side, server, method, ending, self._run)
        with self._state.begin() as connection:
            if self._still is not None:  # the server before may have taken long
                self._still(connection)
            cutover.note_block(connection, self._name, block)
        self._placed.append(block)

    # -- read_only

    def _read_only(self, server: LeftServer) -> None:
        if not read_only.is_on(server):
            self._note(server.name, "read_only", (read_only.OPEN,))
        # It waits for open transactions that have written: they are ended after a while.
        server.execute(f"SET SESSION lock_wait_timeout = {max(1, round(self._cutover.wait_seconds))}")
        try:
            server.execute(read_only.CLOSE)
        except ServerError:
            self.end(server, server.in_the_way())
            try:
                server.execute(read_only.CLOSE)
            except ServerError as error:
                if number(error.__cause__ or error) != LOCK_WAIT:
                    raise
                raise server.still_held(error, self._databases[server.name]) from error.__cause__

    def _refuse_denied(self, asked: Iterable[tuple[LeftServer, str]]) -> None:
        """Raise PreflightError for grants that are missing, of all servers at once; nothing is tried without them.

        asked: each server, and how writes are stopped or were stopped there.
        """
        lacking = [
            one
            for server, method in asked
            for one in needed_grants.check(
                server.acts, needed_grants.cutover_at(server.acts, self._databases[server.name], method), ""
            )
            if one.verdict in (Verdict.PROBLEM, Verdict.NOTE)  # a note: single grants may say otherwise
        ]
        if any(one.verdict is Verdict.PROBLEM for one in lacking):
            other = f"; {needed_grants.OTHER_STOPS}" if self._cutover.stop == "read_only" else ""
            raise PreflightError(
                "\n  - ".join(one.message for one in lacking),
                hint="; ".join(one.mend for one in lacking) + f" (docs/grants.md){other}",
            )

    # -- revoke

    def _revoke(self, server: LeftServer) -> None:
        taken, back = account_grants.revocations(server, *self._of(server))
        self._note(server.name, "revoke", back)
        for statement in taken:
            try:
                server.execute(statement, self._cutover.wait_seconds)
            except ServerError as error:
                waited = error.__cause__ is not None and number(error.__cause__) in _WAITED
                raise ServerError(error.message, hint=_BACKUP if waited else error.given) from error.__cause__
        accounts = [account_grants.named(text) for text in self._cutover.accounts]
        # REVOKE does not reach what a session may do in the database it has chosen, nor an open transaction.
        self.end(server, server.sessions_of([*accounts, *privileges.members(server, accounts)]))
        account_grants.refuse_open(server, *self._of(server))

    def _of(self, server: LeftServer) -> tuple[Sequence[str], Collection[str]]:
        return self._cutover.accounts, self._databases[server.name]

    def _standing(self, server: LeftServer) -> list[str]:
        """Those statements that would give back what nobody has taken, where all accounts are there."""
        try:
            return account_grants.grants(server, *self._of(server))[1]
        except ServerError as error:
            if error.__cause__ is None or number(error.__cause__) not in _NO_ACCOUNT:
                raise
            return []

    # -- hook

    def _hook(self, what: str) -> None:
        hooks = self._cutover.hooks
        if not hooks.writes:
            raise ServerError(
                f"the {self._side}s were closed by a hook, and the config has none to {what} them",
                hint="put cutover.hooks.writes back, and run the same command again",
            )
        command = [*hooks.writes, what, self._side.value]
        hook.run(command, hooks.seconds, self._run_dir / "hook.lock", hooks.environment)

    # -- sessions

    def end(self, server: LeftServer, sessions: Sequence[OtherSession]) -> None:
        """End sessions that hold on, and name them."""
        for session in sessions:
            self._say(f"{self._side} '{server.name}': ended {session}")
        server.end(sessions)


def _databases(plan: Plan) -> dict[str, set[str]]:
    """Of each source the databases with tables of a plan."""
    found: dict[str, set[str]] = {}
    for source, database, _ in plan.tables:
        found.setdefault(source, set()).add(database)
    return found
