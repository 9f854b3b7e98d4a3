"""What is left before something runs out: free disk of each server and of this machine, and how long logs are kept."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

import pymysql
import sqlalchemy as sa

from migrate.kafka import admin
from migrate.model.errors import MigrateError
from migrate.mysql.connection import connect
from migrate.preflight.capacity import retention, space
from migrate.settings import Server, Settings
from migrate.state import position

KAFKA = "kafka"
HERE = "run_dir"
_KEPT = 60.0


@dataclass(frozen=True, slots=True)
class Margins:
    """free: bytes on the disk of each server that shows them, by its name in messages, and of this machine's `run_dir`;
    of several on one disk the first. kept: seconds that each source keeps its binlog, by its name, and Kafka its
    messages; nothing of what is kept until somebody purges it. unknown: servers that did not answer."""

    free: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, float] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()


NOTHING_KNOWN = Margins()
Read = Callable[[sa.Engine, Settings], Margins]
"""As `read`."""


def kept(seconds: float = _KEPT) -> Read:
    """As `read`, of who looks again and again: its answer is given again for so long."""
    found = NOTHING_KNOWN
    until = 0.0

    def look(state: sa.Engine, settings: Settings) -> Margins:
        nonlocal found, until
        if time.monotonic() >= until:
            found = read(state, settings)
            until = time.monotonic() + seconds
        return found

    return look


def read(state: sa.Engine, settings: Settings) -> Margins:
    """Now. Servers that do not answer are named in it. Raises what the state database raises."""
    free: dict[str, int] = {HERE: _free_here(settings)}
    kept_: dict[str, float] = {}
    unknown: set[str] = set()
    disks: set[tuple[object, ...]] = set()
    for where, source, server in _servers(position.where_read(state, settings)):
        try:
            with closing(connect(server, where)) as connection:
                disk = space.look(connection)
                seconds = retention.kept_seconds(connection) if source else 0.0
        except (MigrateError, pymysql.MySQLError, OSError):
            unknown.add(where)
            continue
        if seconds:
            kept_[source] = seconds
        if disk.free is not None and disk.name not in disks:
            disks.add(disk.name)
            free[where] = disk.free
    try:
        hours = [_of_topic(settings, topic) for topic in settings.topics]
        kept_ |= {KAFKA: min(hours)} if min(hours) < float("inf") else {}
    except MigrateError:
        unknown.add(KAFKA)
    return Margins(free, kept_, frozenset(unknown))


def _servers(settings: Settings) -> Iterator[tuple[str, str, Server]]:
    """(name in messages, the source's name or "", server)."""
    yield from ((f"source '{one.name}'", one.name, one) for one in settings.sources)
    yield from ((f"target '{one.name}'", "", one) for one in settings.targets)
    yield "state server", "", settings.state


def _of_topic(settings: Settings, topic: str) -> float:
    """Seconds that it keeps messages; infinite where for ever. Raises ServerError."""
    told = admin.topic_settings(settings.kafka, topic, ["retention.ms"]).get("retention.ms", "")
    milliseconds = int(told) if told.lstrip("-").isdecimal() else settings.kafka.retention_hours * 3_600_000
    return milliseconds / 1000 if milliseconds >= 0 else float("inf")


def _free_here(settings: Settings) -> int:
    directory = settings.run_dir.absolute()
    there = next(path for path in (directory, *directory.parents) if path.exists())
    return shutil.disk_usage(there).free
