"""A run of the verification as the state keeps it: begun or gone on with, saved now and then, and heard of."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from migrate.model.errors import OwnershipLost
from migrate.model.table import TableId
from migrate.mysql.errors import passes, text
from migrate.settings import Settings
from migrate.state import database, verification, verification_progress
from migrate.state.verification_progress import Progress
from migrate.target.routing import PlannedTable
from migrate.verify import resume
from migrate.verify.difference import Kind
from migrate.verify.recheck import Difference
from migrate.verify.table_check import TableCheck
from migrate.verify.verified import TableVerified

log = structlog.get_logger("migrate.verify")
SAVE_SECONDS = 5.0
"""Between two savings of one table. What was compared since the last one is compared again."""
_TOUCHES = 4
"""In the time after which a run counts as silent."""
_MOST = 8 * 1024 * 1024
"""Of a table's progress: more could be above the server's max_allowed_packet. What was saved before stays valid."""


@dataclass(slots=True)
class VerificationRun:
    """What is known of a run. For one thread."""

    settings: Settings
    state: sa.Engine
    number: int
    started: datetime
    before: dict[str, str]  # by source, where its log ended when the run began
    resumed: int = 0  # how many processes went on with it
    kept: dict[TableId, Progress] = field(default_factory=dict)  # by former processes
    done: dict[TableId, TableVerified] = field(default_factory=dict)
    _save_at: float = 0.0

    def __post_init__(self) -> None:
        self.done = {id_: _verified(one.body) for id_, one in self.kept.items() if one.done}

    @property
    def rows_before(self) -> int:
        """Rows that former processes compared."""
        return sum(int(one.body["rows"]) for one in self.kept.values())

    def resume(self, check: TableCheck) -> TableCheck:
        """Have a check go on where a former process was with its table."""
        if (progress := self.kept.get(check.planned.table.id)) is not None and not progress.done:
            check.load(progress.body)
        self._save_at = 0.0
        return check

    def save(self, check: TableCheck, *, at_once: bool = False) -> None:
        """Keep how far a table is, every SAVE_SECONDS. A state server that is away is waited for by nobody.

        Raises: OwnershipLost when another process went on with the run.
        """
        if not at_once and time.monotonic() < self._save_at:
            return
        body = json.dumps(check.dump())
        if len(body) <= _MOST:
            self._put([(check.planned.table.id, False, body)])
        self._save_at = time.monotonic() + SAVE_SECONDS

    def book(self, found: Sequence[tuple[TableCheck, TableVerified]]) -> None:
        """Take in what was found of tables. What could not be repaired is tried again by who goes on."""
        self.done |= {check.planned.table.id: verified for check, verified in found}
        done = [(check.planned.table.id, verified) for check, verified in found if check.unmended is None]
        self._put([(id_, True, json.dumps(asdict(verified))) for id_, verified in done])

    def still_ours(self, connection: sa.Connection) -> None:
        """Nobody else goes on with the run before the transaction ends. Raises OwnershipLost when someone did."""
        if not verification_progress.touch(connection, self.number, self.resumed):
            raise OwnershipLost(
                f"another `migrate verify` took verification {self.number} over", hint="this process ends"
            )

    def finish(self, connection: sa.Connection, certificate: Mapping[str, Any]) -> None:
        """Store the outcome in place of the progress. Raises OwnershipLost."""
        self.still_ours(connection)
        verification_progress.drop(connection, self.number)
        verification.finish(connection, self.number, certificate)

    def _put(self, bodies: Sequence[tuple[TableId, bool, str]]) -> None:
        """bodies: by table, whether it is done, and what is kept of it."""
        if not bodies:
            return
        try:
            with self.state.begin() as connection:
                self.still_ours(connection)
                for id_, done, body in bodies:
                    verification_progress.save(connection, self.settings.name, self.number, id_, done, body)
        except DBAPIError as error:
            if not passes(error.orig or error):
                raise
            log.warning("progress not saved", verification=self.number, reason=text(error.orig or error))


@contextmanager
def standing(
    settings: Settings, state: sa.Engine, together: Sequence[Sequence[PlannedTable]], *, repair: bool, anew: bool
) -> Iterator[VerificationRun]:
    """The run to go on with, or a new one; heard of for the time of the block.

    together: tables that are compared together, of each group the first has its progress.
    anew: begins a new one in any case. Raises: PreflightError when another process is at the run.
    """
    tables = [planned for one in together for planned in one]
    with state.connect() as connection:
        asked = resume.asked(connection, settings, tables, repair)
        servers = resume.read_at(connection, settings, tables)
    found = None if anew else resume.find(settings, state, asked, servers)
    if found is None:
        run = _begun(settings, state, tables, asked, servers)
    else:
        with state.connect() as connection:
            kept = verification_progress.load(connection, found.id)
        before = {name: str(one["before"]) for name, one in found.sources.items()}
        run = VerificationRun(settings, state, found.id, _utc(found.started), before, found.resumed + 1, kept)
        log.info(f"resumes verification {run.number}: {run.rows_before} rows compared before")
    with _heard_of(run):
        yield run


def _begun(
    settings: Settings,
    state: sa.Engine,
    tables: Sequence[PlannedTable],
    asked: Mapping[str, Any],
    servers: Mapping[str, list[Any]],
) -> VerificationRun:
    before = resume.binlog_ends(settings, tables)
    sources = {name: {"read_at": servers[name], "before": end} for name, end in before.items()}
    with state.begin() as connection:
        verification_progress.give_up(connection, settings.name, settings.lease.seconds)
        number = verification.start(connection, settings.name, json.dumps(asked), json.dumps(sources))
        started = verification.started(connection, number)
    return VerificationRun(settings, state, number, _utc(started), before)


@contextmanager
def _heard_of(run: VerificationRun) -> Iterator[None]:
    """Touches the run from a thread, so that nobody takes it for one that was killed."""
    ended = threading.Event()
    seconds = run.settings.lease.seconds / _TOUCHES
    thread = threading.Thread(target=_touch, args=(run, ended, seconds), name="verification-heard-of", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=5)
        try:
            with run.state.begin() as connection:
                verification_progress.leave(connection, run.number, run.resumed)
        except SQLAlchemyError as error:
            log.warning(
                "the end of the verification is not noted; another run takes it over after a while",
                error=str(error.__cause__ or error),
            )


def _touch(run: VerificationRun, ended: threading.Event, seconds: float) -> None:
    own = database.engine(run.settings.state, pool=1)
    try:
        while not ended.wait(seconds):
            try:
                with own.begin() as connection:
                    if not verification_progress.touch(connection, run.number, run.resumed):
                        return  # another's, or finished: the next saving says so
            except SQLAlchemyError as error:
                log.warning("the verification's heartbeat is not noted", error=str(error.__cause__ or error))
    finally:
        own.dispose()


def _verified(body: Mapping[str, Any]) -> TableVerified:
    lists = {name: tuple(body[name]) for name in ("key", "columns")}
    found = {name: tuple(map(_difference, body[name])) for name in ("named", "mended")}
    lists["unaccounted"] = tuple(body.get("unaccounted", ()))
    return TableVerified(**{**body, **lists, **found})


def _difference(body: Mapping[str, Any]) -> Difference:
    return Difference(**{**body, "key": tuple(body["key"]), "kind": Kind(body["kind"])})


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC)
