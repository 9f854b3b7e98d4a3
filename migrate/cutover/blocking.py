"""How writes are stopped at the side that is left, and given back (`cutover.stop`).

What ends a block is noted in the state before anything is done, so that whoever comes after a kill can end it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence

import sqlalchemy as sa
import structlog

from migrate.cutover.server import Server, Session, settled
from migrate.model.errors import PreflightError, ServerError
from migrate.mysql.grants import covers
from migrate.settings import Cutover, Settings
from migrate.state import cutover, switch
from migrate.state.cutover import Block
from migrate.state.switch import Side, Switch, Writes

log = structlog.get_logger("migrate.cutover")
Say = Callable[[str], None]
_WRITES = ("INSERT", "UPDATE", "DELETE")
_ALL = "ALL PRIVILEGES"
_GRANT = re.compile(r"GRANT (?P<what>.+?) ON (?P<on>\S+) TO ", re.S)
_HOOK = "hook"


class Blocks:
    """Stops and gives back writes of applications at the servers of one side."""

    def __init__(
        self,
        settings: Settings,
        state: sa.Engine,
        side: Side,
        servers: Sequence[Server],
        databases: Mapping[str, Collection[str]],
        say: Say,
    ) -> None:
        """settings: of the way there; databases: of each server, those with tables of ours."""
        self._name = settings.name
        self._cutover: Cutover = settings.cutover
        self._state = state
        self._side = side
        self._servers = servers
        self._databases = databases
        self._say = say

    def probe(self) -> None:
        """See that writes could be stopped, without doing so. Raises PreflightError, ServerError."""
        for server in self._servers:
            match self._cutover.stop:
                case "read_only":
                    _probe_read_only(server)
                case "revoke":
                    self._revocations(server)
                case _:
                    pass
        if self._cutover.stop == "application":
            with self._state.connect() as connection:
                known = switch.every_application(connection, self._name)
            if not known:
                raise PreflightError(
                    "no application has said which version of the switch it goes by",
                    hint="cutover.stop: application needs applications that write their row of `application`:"
                    " docs/cutover.md",
                )

    def stop(self) -> None:
        """Stop writes. Raises PreflightError, ServerError; what was done until then is noted and can be ended."""
        with self._state.begin() as connection:
            now = switch.put(connection, self._name, self._side, Writes.CLOSED)
        match self._cutover.stop:
            case "read_only":
                for server in self._servers:
                    self._read_only(server)
            case "revoke":
                for server in self._servers:
                    self._revoke(server)
            case "application":
                self._acknowledged(now)
            case "hook":
                self._note(Block(self._side, _HOOK, "hook", ()))
                self._hook("close")

    def give_back(self) -> bool:
        """End what was put in place at this side, also by an earlier run; whether there was anything.

        Raises ServerError; what could not be ended stays noted.
        """
        with self._state.connect() as connection:
            found = cutover.blocked(connection, self._name, self._side)
        by_name = {server.name: server for server in self._servers}
        for block in found:
            if block.method == "hook":
                self._hook("open")
            elif block.server in by_name:
                for statement in block.ending:
                    by_name[block.server].execute(statement)
            else:
                raise ServerError(
                    f"writes are stopped at '{block.server}', which is not in the config any more",
                    hint="put it back; or run there: " + "; ".join(block.ending),
                )
            with self._state.begin() as connection:
                cutover.drop_block(connection, self._name, block)
            self._say(f"{self._side} '{block.server}': writes given back")
        return bool(found)

    def _note(self, block: Block) -> None:
        with self._state.begin() as connection:
            cutover.note_block(connection, self._name, block)

    # -- read_only

    def _read_only(self, server: Server) -> None:
        ((on,),) = server.query("SELECT @@GLOBAL.read_only")
        if str(on) in ("0", "OFF"):
            self._note(Block(self._side, server.name, "read_only", ("SET GLOBAL read_only = 0",)))
        # It waits for open transactions that have written: they are ended after a while.
        server.execute(f"SET SESSION lock_wait_timeout = {max(1, round(self._cutover.wait_seconds))}")
        try:
            server.execute("SET GLOBAL read_only = 1")
        except ServerError:
            self.end(server, server.writers())
            server.execute("SET GLOBAL read_only = 1")

    # -- revoke

    def _revoke(self, server: Server) -> None:
        taken, back = self._revocations(server)
        self._note(Block(self._side, server.name, "revoke", back))
        for statement in taken:
            server.execute(statement)
        accounts = [_account(text) for text in self._cutover.accounts]
        # REVOKE does not reach what a session may do in the database it has chosen, nor an open transaction.
        self.end(server, server.sessions_of(accounts))

    def _revocations(self, server: Server) -> tuple[list[str], list[str]]:
        """Statements that take writes from the applications' accounts, and those that give them back."""
        taken: list[str] = []
        back: list[str] = []
        for text in self._cutover.accounts:
            user, host = _account(text)
            account = f"'{user}'@'{host}'"
            for (line,) in server.query(f"SHOW GRANTS FOR {account}"):
                found = _GRANT.match(str(line))
                if found is None:
                    continue
                what = _writes(found["what"])
                if not what or not (found["on"] == "*.*" or _on_any(found["on"], self._databases[server.name])):
                    continue
                if found["on"] == "*.*":
                    raise PreflightError(
                        f"{account} may write by a grant on *.*, which cannot be taken from single databases",
                        hint="give it grants by database, or use cutover.stop: read_only",
                    )
                taken.append(f"REVOKE {what} ON {found['on']} FROM {account}")
                back.append(f"GRANT {what} ON {found['on']} TO {account}")
        if not taken:
            raise PreflightError(
                f"'{server.name}': none of {', '.join(self._cutover.accounts)} may write by a grant of its own",
                hint="name the accounts, or roles, that hold the grants in cutover.accounts",
            )
        return taken, back

    # -- application, hook

    def _acknowledged(self, now: Switch) -> None:
        late: list[str] = []

        def all_have() -> bool:
            with self._state.connect() as connection:
                known = switch.every_application(connection, self._name)
            late[:] = [f"{one.instance} (at version {one.version})" for one in known if one.version < now.version]
            return not late

        if not settled(all_have, self._cutover.acknowledge_seconds, 0.02):
            raise ServerError(
                f"did not acknowledge version {now.version} of the switch within"
                f" {self._cutover.acknowledge_seconds:g} s: {', '.join(late)}",
                hint="`migrate switch --forget INSTANCE` for one that is gone",
            )

    def _hook(self, what: str) -> None:
        command = [*self._cutover.hooks.writes, what, self._side.value]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=self._cutover.hooks.seconds, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServerError(f"hook {' '.join(command)}: {error}") from error
        if done.returncode:
            told = (done.stderr or done.stdout).strip().splitlines()
            raise ServerError(
                f"hook {' '.join(command)}: exit status {done.returncode}{': ' + told[-1] if told else ''}"
            )

    # -- sessions

    def end(self, server: Server, sessions: Sequence[Session]) -> None:
        """End sessions that hold on, and name them."""
        for session in sessions:
            self._say(f"{self._side} '{server.name}': ended {session}")
        server.end(sessions)


def _probe_read_only(server: Server) -> None:
    """Setting it to what it is needs the same grant, and changes nothing."""
    ((on,),) = server.query("SELECT @@GLOBAL.read_only")
    server.execute(f"SET GLOBAL read_only = {'0' if str(on) in ('0', 'OFF') else '1'}")


def _writes(what: str) -> str:
    """Of a grant's privileges those that write; "" for none. Grants on columns count."""
    if what.strip() == _ALL:
        return ", ".join(_WRITES)
    parts = re.split(r",\s*(?![^(]*\))", what)
    return ", ".join(part for part in parts if part.split("(", 1)[0].strip() in _WRITES)


def _on_any(on: str, databases: Collection[str]) -> bool:
    """Whether a grant is on one of these databases, or on something in it."""
    name = f"`{on.split('`')[1]}`" if on.startswith("`") else on.split(".")[0]
    return any(covers(name, database) for database in databases)


def _account(text: str) -> tuple[str, str]:
    user, _, host = text.replace("'", "").replace("`", "").rpartition("@")
    return (user, host) if user else (host, "%")
