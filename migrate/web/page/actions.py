"""What an operator does from the page: each action is a command of `migrate`, run as a process of its own.

It is noted in the state before it is run, and how it ended afterwards. A request must carry a mark that only this page
has, as a browser sends a person's name and token with requests of other sites too.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request

from migrate import private
from migrate.settings import Settings
from migrate.state import page_action
from migrate.state.page_action import PageAction
from migrate.web.status_reader import reason

log = structlog.get_logger("migrate.web")

LISTED = 20
"""Actions that the page shows."""
_FIELD = 1024
"""Characters of a value at most."""
_TAIL_BYTES = 16 * 1024
"""Of what a command says, kept from its end."""


@dataclass(frozen=True, slots=True)
class Field:
    """One thing that an action asks for."""

    name: str
    label: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """words: of the command, by the values of the fields. switches: it moves applications, and the migration's name is
    typed to confirm it."""

    name: str
    label: str
    told: str
    words: Callable[[Mapping[str, str]], list[str]]
    fields: tuple[Field, ...] = ()
    switches: bool = False


_TABLE = Field("table", "Table at the source, as database.table")
_KEY = Field("key", "Key; one of several columns is a JSON list")
_SOURCE = Field("source", "Source, where several have the table", optional=True)
_REASON = Field("reason", "Why it is skipped; stored and shown")


def _of_row(*command: str) -> Callable[[Mapping[str, str]], list[str]]:
    def words(given: Mapping[str, str]) -> list[str]:
        source = [f"--source={given['source']}"] if given.get("source") else []
        why = [f"--reason={given['reason']}"] if given.get("reason") else []
        return [*command, *source, *why, "--", given["table"], given["key"]]

    return words


def _always(*command: str) -> Callable[[Mapping[str, str]], list[str]]:
    return lambda _given: list(command)


ACTIONS = {
    one.name: one
    for one in (
        Action("pause", "Pause the copy", "No new chunk begins until it is resumed.", _always("throttle", "--pause")),
        Action("resume", "Resume the copy", "Chunks begin again.", _always("throttle", "--resume")),
        Action("check", "Check now", "The scheduled check, once.", _always("check", "--once")),
        Action("retry", "Retry what is blocked or parked", "As the source has it now.", _always("parked", "retry")),
        Action(
            *("refresh", "Refresh a row", "It is read at the source again, and written or deleted at every place."),
            _of_row("refresh"),
            (_TABLE, _KEY, _SOURCE),
        ),
        Action(
            *("skip", "Skip a row", "Its refused changes are parked, so that the partition continues."),
            _of_row("parked", "skip"),
            (_TABLE, _KEY, _SOURCE, _REASON),
        ),
        Action(
            *("rehearse", "Rehearse the cutover", "Every step that does not block writes."),
            _always("cutover", "--rehearse"),
        ),
        Action(
            *("cutover", "Cut over", "Applications move to the targets. Nobody can write for a moment."),
            _always("cutover"),
            switches=True,
        ),
        Action(
            *("rollback", "Roll back", "Applications move back to the sources. Nobody can write for a moment."),
            _always("rollback"),
            switches=True,
        ),
    )
}


class Refused(Exception):  # noqa: N818 - it says what is so
    """Why an action is not begun, in a line."""


@dataclass(frozen=True, slots=True)
class ActionsSeen:
    """What the page shows of the actions. running: what the present one said so far; None where none runs."""

    actions: Sequence[PageAction]
    running: str | None


class Actions:
    """Runs one command at a time. For one event loop."""

    def __init__(self, settings: Settings, config: Path, state: sa.Engine) -> None:
        self._migration = settings.name
        self._directory = settings.run_dir / "page"
        self._config = config
        self._state = state
        self._secret = secrets.token_bytes(32)
        self._running: PageProcess | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def mark(self, operator: str) -> str:
        """What the forms of an operator's page carry; another one after a restart."""
        return hmac.new(self._secret, operator.encode(), hashlib.sha256).hexdigest()

    async def done(self) -> ActionsSeen:
        """Raises SQLAlchemyError."""
        found = await asyncio.to_thread(self._newest)
        return ActionsSeen(found, None if self._running is None else self._running.said)

    def asked(self, request: Request, body: bytes, operator: str) -> list[str]:
        """The words of the command that a form asks for. Raises Refused."""
        given = _values(request, body)
        if not hmac.compare_digest(given.get("mark", "").encode(), self.mark(operator).encode()):
            raise Refused("the form is of an earlier page, or of another site: load the page again")
        action = ACTIONS.get(given.get("action", ""))
        if action is None:
            raise Refused("the page has no such action")
        for field in action.fields:
            value = given.get(field.name, "")
            if not value and not field.optional:
                raise Refused(f"{field.label}: nothing is given")
            if len(value) > _FIELD or any(ord(one) < ord(" ") for one in value):
                raise Refused(f"{field.label}: it is longer than {_FIELD} characters, or has a control character")
        if action.switches and given.get("confirm") != self._migration:
            raise Refused(f"{action.label}: type the migration's name to confirm it")
        return action.words(given)

    async def begin(self, operator: str, words: Sequence[str]) -> None:
        """Note and start a command. Raises Refused while another one runs; SQLAlchemyError; OSError."""
        if self._running is not None:
            raise Refused("another action runs: wait for its end")
        self._running = process = PageProcess(self._directory / "action.log")
        try:
            command = shlex.join(["migrate", *words])
            number = await asyncio.to_thread(self._noted, operator, command)
            log.warning("an action from the page", operator=operator, command=command)
            await process.start([sys.executable, "-m", "migrate", "--config", str(self._config), *words])
        except BaseException:
            self._running = None
            raise
        task = asyncio.create_task(self._to_its_end(process, number))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _to_its_end(self, process: PageProcess, number: int) -> None:
        try:
            code = await process.ended()
            await asyncio.to_thread(self._note_end, number, code, process.said)
            process.forget()
            log.warning("an action from the page ended", number=number, exit_code=code)
        except SQLAlchemyError as error:
            log.error("the end of an action cannot be noted", number=number, error=reason(error))
        finally:
            self._running = None

    def _noted(self, operator: str, command: str) -> int:
        with self._state.begin() as connection:
            return page_action.begin(connection, self._migration, operator, command)

    def _note_end(self, number: int, code: int, said: str) -> None:
        with self._state.begin() as connection:
            page_action.end(connection, self._migration, number, code, said)

    def _newest(self) -> list[PageAction]:
        with self._state.connect() as connection:
            return page_action.newest(connection, self._migration, LISTED)


class PageProcess:
    """One command, in a session of its own, which writes to a file: it goes on where the page's server ends."""

    def __init__(self, log_file: Path) -> None:
        self._file = log_file
        self._process: asyncio.subprocess.Process | None = None

    @property
    def said(self) -> str:
        """The end of what it said so far."""
        try:
            with self._file.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    async def start(self, line: Sequence[str]) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "MIGRATE_SUPERVISED"}
        private.directory(self._file.parent)
        said = private.opened(self._file, os.O_TRUNC)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *line,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={**environment, "NO_COLOR": "1"},
                start_new_session=True,
            )
        finally:
            os.close(said)

    async def ended(self) -> int:
        """Its exit code, once it ended."""
        assert self._process is not None  # noqa: S101 - it was started
        return await self._process.wait()

    def forget(self) -> None:
        """The state has the end of what it said."""
        self._file.unlink(missing_ok=True)


def _values(request: Request, body: bytes) -> dict[str, str]:
    """Of a form that this page sent. Raises Refused for what another site may have sent, and for no form."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    host = request.headers.get("host", "")  # behind a proxy it is what the browser knows, and the scheme may not be
    if site not in (None, "same-origin") or (origin is not None and origin.partition("://")[2] != host):
        raise Refused("an action begins at this page, not at another site")
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise Refused("an action is sent by a form of this page")
    with suppress(UnicodeError, ValueError):
        found = parse_qs(body.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict")
        if all(len(values) == 1 for values in found.values()):
            return {name: values[0].strip() for name, (*values,) in found.items()}
    raise Refused("the form cannot be read")
