"""`migrate doctor`: each part of a migration, one line each, whatever of it can be reached."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata

import pymysql
from confluent_kafka import libversion
from sqlalchemy.exc import SQLAlchemyError

from migrate.kafka import admin
from migrate.model import process_names
from migrate.model.errors import MigrateError, defect
from migrate.model.partition import Partition
from migrate.model.words import counted
from migrate.mysql.connection import Connection
from migrate.mysql.errors import text
from migrate.preflight.capacity import space
from migrate.preflight.result import Result, Verdict
from migrate.preflight.server import clocks, state, versions
from migrate.preflight.server_checks import ServerChecks
from migrate.publish.compiled import compiled
from migrate.settings import Server, Settings
from migrate.state import database, finished, lease
from migrate.state import migration as migrations

_TIGHT = 2 * 1024**3
"""Bytes free, below which a server's disk is a problem."""
_AT_ONCE = 8
Look = Callable[[], Iterable[Result]]


def examine(settings: Settings, *, reverse: bool = False) -> list[Result]:
    """Every part that can be looked at, in order; a part that does not answer is a line of its own, and raises nothing.

    reverse: of the reverse stream, whose targets are the sources.
    """
    looks: list[tuple[str, Look]] = [("program", _program), ("disk", lambda: space.check_here(settings.run_dir))]
    looks += [(f"source '{one.name}'", _server(one, "source", one.name, source=True)) for one in settings.sources]
    looks += [(f"target '{one.name}'", _server(one, "target", one.name, back=reverse)) for one in settings.targets]
    looks += [
        ("state server", _server(settings.state, "state", "")),
        ("state", lambda: [*_state(settings), *_leases(settings)]),
        ("kafka", lambda: _kafka(settings)),
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:  # one that does not answer holds nobody up
        found = [pool.submit(_guarded, subject, look) for subject, look in looks]
        return [one for each in found for one in each.result()]


def _guarded(subject: str, look: Look) -> list[Result]:
    try:
        return [*look()]
    except MigrateError as error:
        return [Result("answers", subject, Verdict.UNKNOWN, f"{subject}: {error.message}", error.given)]
    except (pymysql.MySQLError, SQLAlchemyError, OSError) as error:
        return [Result("answers", subject, Verdict.UNKNOWN, f"{subject}: {text(error)}")]
    except Exception as error:
        return [Result("answers", subject, Verdict.UNKNOWN, f"{subject}: {defect(error)}")]


def _program() -> list[Result]:
    made = "compiled" if compiled() else "in plain Python"
    told = f"migrate {metadata.version('migrate')}, publisher {made}; Python {platform.python_version()}"
    return [Result("version", "program", Verdict.PASS, f"{told}, librdkafka {libversion()[0]}")]


def _server(server: Server, kind: str, name: str, *, source: bool = False, back: bool = False) -> Look:
    where = f"{kind} '{name}'" if name else "state server"

    def look() -> list[Result]:
        results: list[Result] = []
        with ServerChecks(server, ("answers", where), where, results, set()) as opened:
            opened.run("version", lambda session: _version(session, server, source=source, back=back))
            opened.run("clock", clocks.check)
            opened.run("disk", _disk)
        return results

    return look


def _version(session: Connection, server: Server, *, source: bool, back: bool) -> Iterable[Result]:
    for one in versions.check(session, versions.reported(session), source=source, back=back):
        yield Result(one.check, one.subject, one.verdict, f"{one.message}, at {server.address}", one.mend)


def _disk(session: Connection) -> Iterable[Result]:
    free = space.look(session).free
    if free is None:
        told = f"{session.name}: it does not show what its disk has free"
        yield Result("disk", session.name, Verdict.PASS, told)
        return
    told = f"{session.name}: {free / 1024**3:,.1f} GiB free on the disk of its data"
    if free < _TIGHT:
        yield Result("disk", session.name, Verdict.PROBLEM, told, "make room there: a full disk stops every write")
        return
    yield Result("disk", session.name, Verdict.PASS, told)


def _state(settings: Settings) -> Iterable[Result]:
    name, version, newest = settings.state.database, state.version_of(settings), state.newest_version()
    if version is None:
        told = f"state database {name} is not there yet"
        yield Result("state", name, Verdict.PROBLEM, told, "run `migrate preflight`, then `migrate init`")
        return
    told = f"state database {name}: version {version}"
    if version > newest:
        told += f", this program knows {newest}"
        yield Result("state", name, Verdict.PROBLEM, told, "install the newer program again")
    elif version < newest:
        yield Result("state", name, Verdict.PROBLEM, f"{told}, the program's is {newest}", "run `migrate init`")
    elif state.known(settings) is None:
        told += f"; migration {settings.name} has not begun"
        yield Result("state", name, Verdict.PROBLEM, told, "run `migrate preflight`, then `migrate init`")
    else:
        yield Result("state", name, Verdict.PASS, f"{told}; migration {settings.name} is known")


def _leases(settings: Settings) -> Iterable[Result]:
    """Who works now; nothing before `migrate init`, whose line says so, and after `migrate finish`."""
    if state.known(settings) is None:
        return
    with database.opened(settings.state, pool=1) as engine, engine.connect() as connection:
        if finished.find(connection, settings.name) is not None:
            yield Result("lease", settings.name, Verdict.PASS, f"migration {settings.name} is finished: nothing runs")
            return
        held = lease.holders(connection, settings.name)
        last = lease.last_holders(connection, settings.name)
        known = migrations.get(connection, settings.name)
    names = [*(process_names.publisher(one.name) for one in settings.sources), *process_names.SINGLE]
    for name in names:
        if name in held:
            yield Result("lease", name, Verdict.PASS, f"lease {name}: {held[name]}")
            continue
        before = f", last by {last[name].holder}" if name in last and last[name].holder else ""
        yield Result("lease", name, Verdict.PROBLEM, f"lease {name}: held by nobody{before}", _START)
    partitions = [
        Partition(settings.name, topic.id, number).lease for topic in known.topics for number in range(topic.partitions)
    ]
    owned = sum(name in held for name in partitions)
    told = f"leases of partitions: {owned} of {len(partitions)} held by consumers"
    if owned < len(partitions):
        yield Result("lease", process_names.CONSUME, Verdict.PROBLEM, told, _START)
    else:
        yield Result("lease", process_names.CONSUME, Verdict.PASS, told)


_START = "start `migrate run`; `migrate status` says why, where something stopped"


def _kafka(settings: Settings) -> Iterable[Result]:
    where, count = f"Kafka at {settings.kafka.bootstrap}", admin.brokers(settings.kafka)
    yield Result("kafka", "kafka", Verdict.PASS, f"{where}: {counted(count, 'broker')}")
    begun = state.known(settings) is not None
    for topic in settings.topics:
        for name in (topic, *settings.delay_topics(topic)):
            found = admin.describe(settings.kafka, name)
            if found is not None:
                told = f"topic {name}: {counted(found.partitions, 'partition')}, {found.replicas} of each"
                yield Result("kafka", name, Verdict.PASS, told)
            elif begun:
                yield Result("kafka", name, Verdict.PROBLEM, f"topic {name} is not there", "see `migrate status`")
