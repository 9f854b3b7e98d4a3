"""Free space: what the tables take at the source they take at the targets too."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pymysql

from migrate.model.table import TableId
from migrate.mysql.catalog import place
from migrate.mysql.connection import Connection
from migrate.preflight.capacity.volume import Volume
from migrate.preflight.result import Result, Verdict
from migrate.preflight.server_checks import lost
from migrate.target.routing import PlannedTable

_LEAST = 2 * 1024**3
_MORE = 1.3
"""Pages that are half full, the binlog of the target, and what grows meanwhile."""


@dataclass(frozen=True, slots=True)
class Disk:
    """Where a target keeps its data. name: the server, or its machine's disk; free: in bytes, None when not told."""

    name: tuple[object, ...]
    free: int | None


def needed(volumes: Mapping[TableId, Volume], tables: Iterable[PlannedTable]) -> Counter[str]:
    """Bytes at each target. volumes: of the tables that are to be copied."""
    found: Counter[str] = Counter()
    for planned in tables:
        parts = 1 if planned.broadcast else len(planned.places)
        share = volumes.get(planned.table.id, Volume()).bytes * _MORE / parts
        for one in planned.places:
            found[one.database.target] += round(share)
    return found


def look(connection: Connection) -> Disk:
    """The disk that the data directory is on; MariaDB's plugin `disks` tells of it, to an account that has FILE."""
    host, port, directory = place(connection)
    try:
        disks = connection.query("SELECT Path, Available FROM information_schema.DISKS")
    except pymysql.MySQLError as error:  # no such table, or not for this account
        if lost(connection, error):
            raise
        disks = []
    on = [(str(path), int(kib) * 1024) for path, kib in disks if directory.startswith(str(path).rstrip("/") + "/")]
    if not on:
        return Disk((host, port, directory), None)
    path, free = max(on, key=lambda one: len(one[0]))
    return Disk((host, path), free)


def check_targets(disks: Mapping[str, Disk], needed: Mapping[str, int]) -> Iterator[Result]:
    """Compares what is needed with what is free. Targets of one server, or one disk, need it together."""
    together: dict[tuple[object, ...], list[str]] = {}
    for target, disk in disks.items():
        together.setdefault(disk.name, []).append(target)
    for targets in together.values():
        told = [free for one in targets if (free := disks[one].free) is not None]
        bytes_ = sum(needed.get(one, 0) for one in targets)
        names = " and ".join(f"target '{one}'" for one in targets)
        yield _compared(f"{names}, on one disk" if len(targets) > 1 else names, bytes_, min(told, default=None))


def _compared(names: str, bytes_: int, free: int | None) -> Result:
    if not bytes_:
        return Result("space", names, Verdict.PASS, f"{names}: nothing is known that is to be copied there")
    told = f"{names}: needs about {_gib(bytes_)}"
    if free is None:
        message = f"{told}; the server does not tell what is free"
        return Result("space", names, Verdict.NOTE, message, "look at the disk of its data directory")
    if free < bytes_:
        return Result("space", names, Verdict.PROBLEM, f"{told}, and has {_gib(free)} free", "give it a larger disk")
    return Result("space", names, Verdict.PASS, f"{told}, has {_gib(free)} free")


def check_here(run_dir: Path) -> list[Result]:
    """This machine's disk: logs, and what Spark sets aside."""
    there = next(path for path in (run_dir.absolute(), *run_dir.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    told = f"run_dir {run_dir}: {_gib(free)} free"
    if free < _LEAST:
        mend = f"make room for {_gib(_LEAST)}, or name another `run_dir`"
        return [Result("space", "run_dir", Verdict.NOTE, told, mend)]
    return [Result("space", "run_dir", Verdict.PASS, told)]


def _gib(size: int) -> str:
    return f"{size / 1024**3:,.1f} GiB"
