"""`migrate finish`: the end of a migration. What an auditor needs is kept, the rest is cleaned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace

import pymysql
import sqlalchemy as sa

from migrate.commands.read_to_end import read_on
from migrate.cutover import lost_server
from migrate.cutover.lock import alone
from migrate.cutover.phase_hooks import Phase, around
from migrate.cutover.reverse_settings import SUFFIX, reversed_settings
from migrate.kafka import admin
from migrate.kafka.reader import NoSuchTopic, PartitionReader
from migrate.model import process_names
from migrate.model.errors import PreflightError, ServerError, StopError
from migrate.model.words import counted, some
from migrate.mysql.connection import Connection
from migrate.mysql.errors import ACCESS_DENIED, explained, number
from migrate.mysql.quoting import quote
from migrate.mysql.quoting import table as full_name
from migrate.settings import Settings, Source, Target
from migrate.state import consumed_total, cutover, database, finished, foreign, lease, switch
from migrate.state import migration as migrations
from migrate.state.cutover import Block
from migrate.state.switch import Side
from migrate.status import told
from migrate.target import parked
from migrate.target.pool import connect_database
from migrate.target.routing import Plan, TargetDatabase
from migrate.target.stored_plan import stored_plan

Say = Callable[[str], None]
_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class _Stream:
    """One of the two streams: its settings, its plan and the names of its topics."""

    settings: Settings
    plan: Plan
    topics: tuple[str, ...]
    databases: tuple[TargetDatabase, ...]  # but for those of servers that are gone


@dataclass(frozen=True, slots=True)
class FinishPlan:
    """What a finish will do, or has done. blocks: writes that stay stopped at the side that was left."""

    side: Side
    databases: tuple[tuple[str, str], ...]  # target and database
    topics: tuple[str, ...]
    blocks: tuple[Block, ...]
    parked: int = 0  # changes of the targets that the sources refused: they stay as they are
    options: str = "--yes"  # with which it is done
    done: bool = False
    details: int = 0


def finish(
    settings: Settings,
    state: sa.Engine,
    say: Say,
    *,
    abandon: bool,
    keep_topics: bool,
    do: bool,
    unread: bool = False,
    without: Collection[str] = (),
) -> FinishPlan:
    """End a migration and its reverse stream; again after a kill it goes on.

    abandon: it is given up, with applications at the sources. unread: although changes of the sources never came to the
    targets; Kafka is not asked. do: without it nothing is changed. without: servers that
    are gone for good, at which nothing is looked at or cleaned.
    Raises: PreflightError where it must not end yet, or a source's log cannot be read to its end; ServerError when a
    server does not answer: then again.
    """
    servers: tuple[Source | Target, ...] = (*settings.sources, *settings.targets)
    if unknown := set(without) - {one.name for one in servers}:
        names_ = ", ".join(one.name for one in servers)
        raise PreflightError(f"no server is named '{min(unknown)}'", hint=f"there are: {names_}")
    lost_server.refuse_answering(servers, without)
    with state.connect() as connection:
        migrations.get(connection, settings.name, finished=True)
        begun = finished.find(connection, settings.name)
        if begun is not None and begun.done:
            migrations.refuse_finished(connection, settings.name)
        names = [settings.name]
        if migrations.find(connection, settings.name + SUFFIX) is not None:
            names.append(settings.name + SUFFIX)
        side = switch.get(connection, settings.name).side
        if begun is None:
            _refuse(connection, settings, names, abandon=abandon)
    streams = _streams(settings, state, names, without)
    given = {"--abandon": abandon, "--unread": unread, "--keep-topics": keep_topics}
    options = " ".join([*(name for name in given if given[name]), *(f"--without {one}" for one in without), "--yes"])
    plans = replace(_plans(state, streams, side, keep_topics=keep_topics), options=options)
    if begun is None and not abandon:
        _refuse_parked(streams[0])
        if not unread:
            if do:
                _read_on(settings, state, without)
            _refuse_unread(streams[0], state)
            _refuse_foreign(state, settings.name)
        plans = replace(plans, parked=sum(count for stream in streams[1:] for _, count in _parked(stream)))
    if not do:
        return plans
    with alone(settings, state), around(settings, Phase.FINISH, {"abandoned": "yes" if abandon else "no"}):
        with state.begin() as connection:
            if begun is None and finished.find(connection, settings.name) is not None:
                raise PreflightError("another `migrate finish` began meanwhile", hint="see `migrate status`")
            if begun is None:  # a cutover, or a process, may have begun since
                _refuse(connection, settings, names, abandon=abandon, ours=process_names.CUTOVER)
                if switch.get(connection, settings.name).side is not side:
                    raise PreflightError(
                        "applications were switched meanwhile", hint="see `migrate status`, then try again"
                    )
            for name in names if begun is None else ():
                summary = {"side": side.value, "options": options}
                finished.mark(connection, name, {**finished.totals(connection, name), **summary})
        for stream in streams:
            for used in stream.databases:
                _clean(stream.settings, used, say)
            for used in set(stream.plan.used_databases) - set(stream.databases):
                say(f"{used.target}, database {used.database}: left as it is; if it comes back, drop _migrate_* there")
        if plans.topics:
            admin.delete_topics(settings.kafka, list(plans.topics))
            say(f"{counted(len(plans.topics), 'topic')} deleted")
        removed = sum(finished.clean(state, name) for name in reversed(names))
        say(f"{counted(removed, 'row')} of detail removed from the state; what is kept: docs/cutover.md")
    return replace(plans, done=True, details=removed)


def _refuse_foreign(state: sa.Engine, name: str) -> None:
    """Raise PreflightError while rows are listed that nobody carried or discarded."""
    with state.connect() as connection:
        count = foreign.count_both(connection, name)
    if count:
        raise PreflightError(
            told.foreign(count),
            hint="`migrate foreign carry TABLE KEY` writes one at the active side, `migrate foreign compare` removes"
            " equal ones from the list; --unread finishes without them",
        )


def _refuse(
    connection: sa.Connection, settings: Settings, names: Sequence[str], *, abandon: bool, ours: str = ""
) -> None:
    """Raise PreflightError, with the reason, while it must not end. ours: the lease that we hold ourselves."""
    last = cutover.latest(connection, settings.name)
    if last is not None and last.open:
        raise PreflightError(
            f"run {last.number}, a cutover or rollback, is not finished", hint="`migrate status` names the next command"
        )
    side = switch.get(connection, settings.name).side
    if side is Side.SOURCE and not abandon:
        raise PreflightError(
            "applications are at the sources: the migration cannot be finished yet",
            hint="`migrate cutover` first; `migrate finish --abandon` gives the migration up",
        )
    if side is Side.TARGET and abandon:
        raise PreflightError(
            "applications are at the targets: the migration cannot be given up",
            hint="`migrate rollback` first; or `migrate finish`, without --abandon",
        )
    running = [
        f"{one} ({who})" for name in names for one, who in lease.holders(connection, name).items() if one != ours
    ]
    if running:
        raise PreflightError(
            f"processes still run: {some(running, 3)}",
            hint=f"stop `migrate run` and `migrate --reverse run`; after a kill wait {settings.lease.seconds:g} s",
        )


def _refuse_parked(there: _Stream) -> None:
    """What was set aside would be lost without a word. What the sources refused is told: they are left for good."""
    for used, count in _parked(there):
        if count:
            raise PreflightError(
                f"{counted(count, 'change')} {'are' if count > 1 else 'is'} parked, as {used.target}, database"
                f" {used.database}, refused {'them' if count > 1 else 'it'}",
                hint="`migrate parked list` names them, and the command that drops them",
            )


def _parked(stream: _Stream) -> Iterator[tuple[TargetDatabase, int]]:
    """How many changes each database has parked."""
    for used in stream.databases:
        with closing(connect_database(stream.settings, used)) as connection, explained(f"target '{used.target}'"):
            yield used, parked.count(connection, stream.settings.name) if _present(connection) else 0


def _read_on(settings: Settings, state: sa.Engine, without: Collection[str]) -> None:
    """What somebody wrote at a source since its publisher was stopped is in no topic yet."""
    for source in settings.sources:
        if source.name in without:
            continue
        try:
            read_on(settings, state, source.name)
        except (StopError, ServerError) as error:
            raise PreflightError(
                f"the log of source '{source.name}' is not read to its end: {error.message}",
                hint="fix that and try again; or use --unread, if nobody has written there since its publisher stopped",
            ) from error


def _refuse_unread(there: _Stream, state: sa.Engine) -> None:
    """Changes of the sources, by whoever still wrote there, that would never come to the targets."""
    name, unread = there.settings.name, 0
    with state.connect() as connection:
        known = migrations.get(connection, name, finished=True)
        totals = consumed_total.totals(connection, name)
    with closing(PartitionReader(there.settings.kafka, f"{there.settings.group}.finish")) as reader:
        for partition in known.partitions:
            with suppress(NoSuchTopic):
                _, end = reader.bounds(known.topic_names[partition.topic_id], partition.number)
                unread += max(0, end - totals.get(partition, consumed_total.ConsumedTotal()).next_offset)
    if unread:
        raise PreflightError(
            f"{counted(unread, 'message')} of changes at the sources never came to the targets",
            hint="start `migrate run`, wait for `migrate drain`, stop it, and try again; or use --unread, if nobody"
            " needs them",
        )


def _streams(settings: Settings, state: sa.Engine, names: Sequence[str], without: Collection[str]) -> list[_Stream]:
    there = stored_plan(settings, state)
    found = [settings] if len(names) == 1 else [settings, reversed_settings(settings, there)]
    streams = []
    for one in found:
        with state.connect() as connection:
            topics = [topic.name for topic in migrations.get(connection, one.name, finished=True).topics]
        every = tuple(name for topic in topics for name in (topic, *one.delay_topics(topic)))
        plan = there if one is settings else stored_plan(one, state)
        streams.append(
            _Stream(one, plan, every, tuple(used for used in plan.used_databases if used.target not in without))
        )
    return streams


def _plans(state: sa.Engine, streams: Sequence[_Stream], side: Side, *, keep_topics: bool) -> FinishPlan:
    name = streams[0].settings.name
    with state.connect() as connection:
        kept = finished.shared(connection, [stream.settings.name for stream in streams])
        blocks = tuple(block for one in Side for block in cutover.blocked(connection, name, one))
    topics = [topic for stream in streams for topic in stream.topics if topic.partition(".delay.")[0] not in kept]
    used = [(one.target, one.database) for stream in streams for one in stream.databases]
    return FinishPlan(side, tuple(used), () if keep_topics else tuple(topics), blocks)


def _present(connection: Connection) -> list[str]:
    """Those of the service's own tables that the database has."""
    ours = [part.split("(", 1)[0].split()[-1] for _, parts in database.sql_steps("target") for part in parts]
    there = {str(row[0]) for row in connection.query("SHOW TABLES LIKE %s", ["\\_migrate\\_%"])}
    return [name for name in ours if name in there]


def _clean(settings: Settings, used: TargetDatabase, say: Say) -> None:
    """Take the migration out of the service's own tables in a target database; drop those that nobody uses."""
    where = f"{used.target}, database {used.database}"
    with closing(connect_database(settings, used)) as connection, explained(f"target '{used.target}'"):
        left = _present(connection)
        others = "SELECT 1 FROM {} WHERE migration <> %s LIMIT 1"
        if any(connection.query(others.format(quote(name)), [settings.name]) for name in left):
            _empty(connection, left, settings.name)
            say(f"{where}: its rows are removed; another migration uses the tables")
            return
        try:
            for name in left:
                connection.execute(f"DROP TABLE {quote(name)}")
        except pymysql.MySQLError as error:
            if number(error) not in ACCESS_DENIED:
                raise
            _empty(connection, _present(connection), settings.name)
            names = ", ".join(full_name(used.database, name) for name in _present(connection))
            say(f"{where}: its rows are removed; this account may not drop the tables: DROP TABLE {names}")
        else:
            say(f"{where}: the service's tables are dropped")


def _empty(connection: Connection, names: Sequence[str], migration: str) -> None:
    for name in names:
        statement = f"DELETE FROM {quote(name)} WHERE migration = %s LIMIT {_BATCH}"
        while connection.execute(statement, [migration]):
            pass
