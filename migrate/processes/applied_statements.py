"""`tables[].ddl: apply`: a statement that a source has logged is run over the target tables before the stream goes on.

The publisher stops in front of it, everything before it is consumed, it is run as `migrate ddl run` does, and the
publisher goes on behind it. The run keeps its place in the log, so that whoever comes after a kill knows whether it was
done.

Of a group the first table's statement is run, and the others' are found to bring the same. Nothing is waited for: rows
from before it can be written behind it, and a key that is read again has wider values already (docs/decisions/0056).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import sqlalchemy as sa
import structlog

from migrate.ddl import runner, shards
from migrate.ddl.between import between
from migrate.ddl.left_behind import refuse_at_targets, unended
from migrate.ddl.levels import Allowance
from migrate.ddl.plan import Plan
from migrate.ddl.plan import planned as plan_of
from migrate.ddl.runner import Limits, Runner
from migrate.ddl.servers import Servers, of_settings
from migrate.ddl.statement import LogicalStatement, read, without_level
from migrate.ddl.unreached import TableRefused, way_out
from migrate.kafka.reader import PartitionReader
from migrate.model.errors import Code, MigrateError, PreflightError, ServerError, StopError
from migrate.model.partition import Partition
from migrate.mysql.errors import ACCESS_DENIED, LOCK_WAIT, REFERRED_TO, is_refusal
from migrate.mysql.quoting import printed_table
from migrate.processes.runtime import Runtime
from migrate.publish.schema.ddl import Verb
from migrate.publish.schema.definitions import COPY_AGAIN
from migrate.publish.schema.policy import ToBeApplied
from migrate.state import consumed_total, ddl_member, migration, phase, stop_reason
from migrate.state import ddl as journal
from migrate.state.database import in_transaction
from migrate.state.ddl import DdlRun, Goal
from migrate.state.ddl_member import GroupStatement
from migrate.state.phase import Phase
from migrate.state.switch_lease import Busy
from migrate.target.routing import PlannedTable

log = structlog.get_logger("migrate.ddl")
_AGAIN = 0.2
_BUSY = 5.0
"""Seconds before a cutover, or another run, is asked for again."""
_BY_HAND = (
    "make the target tables the same by hand, set tables[].ddl: ignore for the table, and start again"
    " (docs/operations.md#altering-a-table)"
)
_OF_ROWS_READ_AGAIN = "where it goes on behind the statement alone, as it reads rows that the source has so already"
_END_RUN = "`migrate ddl resume` then ends the run"
_LIMITS = Limits()
_MENDS = {
    **dict.fromkeys(ACCESS_DENIED, "grant what is missing (docs/grants.md#ddl-over-shards)"),
    LOCK_WAIT: "end the session that keeps the table locked (`SHOW FULL PROCESSLIST` at its server)",
    REFERRED_TO: "drop the foreign key that refers to the table",
}
"""What ends a refusal, by the number of the server's error."""
_BY_HAND_IN_A_GROUP = (
    "where the targets have some of its columns by another table's statement, run the rest at them (`migrate ddl run`"
    " with `--side targets`), set tables[].ddl: ignore for the group, and start again (docs/ddl.md#tables-of-a-group)"
)


def apply(runtime: Runtime, lease: str, wanted: ToBeApplied, planned: PlannedTable) -> bool:
    """Run a statement over the target tables of a table; whether that was done before the process is to stop.

    lease: that is held meanwhile. Raises: StopError where it is not run there; ServerError for what may pass, to be
    tried again; OwnershipLost.
    """
    if not wanted.brings:
        _refuse_before_wait(runtime, wanted, planned)
        log.warning("waiting for the consumers, then the statement is run at the targets", statement=wanted.sql)
        if not _consumed(runtime, lease, wanted, planned):
            return False
    told = False
    while not runtime.stop.is_set():
        runtime.leases.check(lease)
        try:
            if done := _run(runtime, wanted, planned):
                log.warning("the statement was run at the targets", statement=wanted.sql, run=done)
                if told:
                    _tell(runtime, None)
                return True
        except Busy as busy:
            log.warning("the statement waits", reason=busy.message)
            if isinstance(busy, _Unended) and not told:
                why = f"{wanted.message}; it waits, with all of this source behind it: {busy.message}"
                _tell(runtime, StopError(why, hint=busy.hint, code=Code.STATEMENT))
                told = True
            runtime.stop.wait(_BUSY)
    return False


class _Unended(Busy):
    """A run that somebody began by `migrate ddl` is paused, or was stopped: nothing but a command ends it."""


def _consumed(runtime: Runtime, lease: str, wanted: ToBeApplied, planned: PlannedTable) -> bool:
    """Wait until all that was published of a table's topic is consumed; False when told to stop first.

    A row that is read again at its source can be as the statement made it, and the targets refuse it until they have
    had the statement. So one that only lets more in is not held back by a partition whose change they refuse; in front
    of any other one, what stops a partition is told of this process too, with the way out.
    """
    settings = runtime.settings
    with runtime.state.connect() as connection:
        topic = migration.get(connection, settings.name).topic(planned.topic or settings.topic)
    with closing(PartitionReader(settings.kafka, f"{settings.group}.ddl")) as reader:
        ends = {
            Partition(settings.name, topic.id, number): reader.bounds(topic.name, number)[1]
            for number in range(topic.partitions)
        }
    told = ""
    while not runtime.stop.is_set():
        runtime.leases.check(lease)
        with runtime.state.connect() as connection:
            reached = consumed_total.prefixes(connection, settings.name)
            left = {stop_reason.of_partition(topic.name, one.number) for one in ends if reached.get(one, 0) < ends[one]}
            stopped = [one for one in stop_reason.every(connection, settings.name) if one.process in left]
        refused = [one.process for one in stopped if one.code == Code.TARGET]
        if refused and wanted.takes_more:
            log.warning("the statement is not held back by a refused change", partitions=", ".join(refused))
        is_over = not left or (wanted.takes_more and bool(refused))
        blocked = "" if is_over or not stopped else stopped[0].process
        if blocked != told:
            _tell(runtime, _waits_for(wanted, blocked) if blocked else None)
            told = blocked
        if is_over:
            return True
        runtime.stop.wait(_AGAIN)
    return False


def _waits_for(wanted: ToBeApplied, blocked: str) -> StopError:
    others = COPY_AGAIN if wanted.empties else f"{_OF_ROWS_READ_AGAIN}: {_BY_HAND}"
    hint = f"once {blocked} goes on the statement is run; {others}"
    return StopError(f"{wanted.message}; it waits for {blocked}, which is stopped", hint=hint, code=Code.STATEMENT)


def _tell(runtime: Runtime, error: StopError | None) -> None:
    """Keep for `migrate status` what a statement waits for; None: for nothing any more."""
    name, process = runtime.settings.name, runtime.process

    def note(state: sa.Connection) -> None:
        if error is not None:
            stop_reason.note(state, name, process, error)
        else:
            stop_reason.clear(state, name, process)

    in_transaction(runtime.state, note, runtime.stop)


@contextmanager
def _not_run_told(wanted: ToBeApplied) -> Iterator[None]:
    """Turns what refuses a statement inside into a StopError with the way out; Busy and what may pass stay."""
    try:
        yield
    except Busy:
        raise
    except (PreflightError, StopError) as error:
        raise _not_run(wanted, error) from error
    except ServerError as error:
        if not is_refusal(error):
            raise
        raise _not_run(wanted, error) from error


def _refuse_before_wait(runtime: Runtime, wanted: ToBeApplied, planned: PlannedTable) -> None:
    """What refuses a statement whatever the consumers do, before they are waited for: hours, where they are behind.
    Raises as `apply`. A run that is not ended is waited for first: its tables may be neither old nor new. Under the
    lease, as a trial beside another one is refused; where a cutover or a run has that, it is asked behind the wait."""
    servers, state = of_settings(runtime.settings), runtime.state
    with _not_run_told(wanted):
        mark, logical = _logical(wanted, planned)
        with state.connect() as connection:
            last = journal.latest(connection, servers.name)
            own = _own(last, mark)
            _refuse_in_state(connection, servers.name, planned, own)
            if own is not None or unended(connection, servers.name, last) is not None:
                return
        with suppress(Busy), runner.held(servers, state):
            _planned(servers, logical, wanted, planned).refuse()


def _run(runtime: Runtime, wanted: ToBeApplied, planned: PlannedTable) -> int:
    """The number of the run that did it; 0 when told to stop before its end. Raises as `apply`; Busy."""
    servers, state = of_settings(runtime.settings), runtime.state
    with _not_run_told(wanted):
        mark, logical = _logical(wanted, planned)
        of = GroupStatement(planned.table.id, wanted.since, wanted.brings) if wanted.brings else None
        with runner.held(servers, state) as lease:
            with state.begin() as connection:
                lease.still_ours(connection)
                last = journal.latest(connection, servers.name)
                own = _own(last, mark)
                if own is None and (other := unended(connection, servers.name, last)) is not None:
                    of_publisher = journal.brought_from(other.statement) is not None  # which continues it by itself
                    raise (Busy if of_publisher else _Unended)(
                        f"run {other.number} of `migrate ddl` is not finished: {other.statement}",
                        hint=way_out(other, journal.of_run(connection, servers.name, other.number)),
                    )
                _refuse_in_state(connection, servers.name, planned, own)
                if of is not None and own is None and (done := _joined(connection, servers.name, of, planned)):
                    return done
            if own is None:
                number = runner.begin(servers, state, _planned(servers, logical, wanted, planned), of)
            else:
                _refuse_late(servers, logical, wanted, planned)
                number = own.number
            work = Runner(
                servers,
                state,
                lease.still_ours,
                _LIMITS,
                lambda row: log.info("shard table", table=str(row), stage=row.stage.value),
                lambda line: log.warning(line),
                runtime.stop,
            )
            return number if work.go(number, Goal.NEW).run.finished is not None else 0


def _logical(wanted: ToBeApplied, planned: PlannedTable) -> tuple[str, LogicalStatement]:
    """The mark of its place in the log, and the statement with it. Raises PreflightError, StopError."""
    mark = journal.mark(planned.table.source, wanted.since)
    return mark, read(f"{mark} {_statement(wanted)}")


def _refuse_late(servers: Servers, logical: LogicalStatement, wanted: ToBeApplied, planned: PlannedTable) -> None:
    if logical.verb is Verb.TRUNCATE:  # which nothing but its own policy lets through
        refuse_at_targets(servers, planned, wanted.since)


def _planned(servers: Servers, logical: LogicalStatement, wanted: ToBeApplied, planned: PlannedTable) -> Plan:
    """Raises what keeps a TRUNCATE from its targets, too."""
    _refuse_late(servers, logical, wanted, planned)
    loses = logical.verb is Verb.TRUNCATE
    return plan_of(servers, logical, shards.at_targets(planned), Allowance(), allow_data_loss=loses)


def _refuse_in_state(state: sa.Connection, name: str, planned: PlannedTable, own: DdlRun | None) -> None:
    """While the table is copied, rows of either definition would come to tables of the other one. own: the statement's
    run, if it has one, which may have been taken back. Raises StopError."""
    phases = phase.stages(state, name)
    if any(phases.get(id_, phase.UNKNOWN).phase is Phase.COPYING for id_ in planned.members or {planned.table.id}):
        raise StopError("a copy of the table is under way", hint="wait for its end", code=Code.STATEMENT)
    if own is not None and own.goal is Goal.OLD:
        raise _taken_back(own.number)


def _joined(state: sa.Connection, name: str, of: GroupStatement, planned: PlannedTable) -> int:
    """The run by which the targets have what the statement brings: it came while this process waited. 0 for none."""
    if back := ddl_member.taken_back(state, name, of):
        raise _taken_back(back)
    return ddl_member.join(state, name, of, planned.members)


def _taken_back(run: int) -> StopError:
    return StopError(f"run {run} was taken back", code=Code.STATEMENT)


def _own(last: DdlRun | None, mark: str) -> DdlRun | None:
    """The last run, where it is that of the statement: as it was begun, which another version may write otherwise."""
    return last if last is not None and last.statement.startswith(f"{mark} ") else None


def _statement(wanted: ToBeApplied) -> str:
    """What the target tables get. Raises StopError where nothing says what that is."""
    if wanted.creates is None:
        return without_level(wanted.sql)
    if found := between(*wanted.creates, printed_table(*wanted.name)):
        return found
    raise StopError("the tables that change their names are alike", code=Code.STATEMENT)


def _not_run(wanted: ToBeApplied, error: MigrateError) -> StopError:
    mend, others = error.hint, [COPY_AGAIN if wanted.empties else _BY_HAND_IN_A_GROUP if wanted.brings else _BY_HAND]
    if isinstance(error, TableRefused):
        what = _MENDS.get(error.number, "mend what the server names")
        mend = f"{what}, and start again: the run is continued"
        others += [] if wanted.empties else [_END_RUN]
    return StopError(
        f"{wanted.message}; it is not run at the targets (ddl: apply): {error.message}",
        hint=f"{mend}; or {'; '.join(others)}",
        code=Code.STATEMENT,
    )
