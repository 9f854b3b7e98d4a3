"""Free space: what the tables take at the source they take at the targets too."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pymysql

from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict
from migrate.preflight.volume import Volume

_LEAST = 2 * 1024**3
_MORE = 1.3
"""Pages that are half full, the binlog of the target, and what grows meanwhile."""


def needed(volume: Volume, shares: Mapping[str, int]) -> dict[str, int]:
    """Bytes at each target. shares: how many of the target tables are there."""
    every = sum(shares.values()) or 1
    return {name: round(volume.bytes * _MORE * count / every) for name, count in shares.items()}


def check_target(connection: Connection, bytes_: int) -> list[Result]:
    """Compares with what is free, where the server tells: MariaDB does with its plugin `disks`."""
    free = _free(connection)
    told = f"{connection.name}: needs about {_gib(bytes_)}"
    if free is None:
        message = f"{told}; the server does not tell what is free"
        return [Result("space", connection.name, Verdict.NOTE, message, "look at the disk of its data directory")]
    if free < bytes_:
        message = f"{told}, and has {_gib(free)} free"
        return [Result("space", connection.name, Verdict.PROBLEM, message, "give it a larger disk")]
    return [Result("space", connection.name, Verdict.PASS, f"{told}, has {_gib(free)} free")]


def _free(connection: Connection) -> int | None:
    """Free bytes of the disk that the data directory is on."""
    row = connection.one("SELECT @@datadir")
    try:
        disks = connection.query("SELECT Path, Available FROM information_schema.DISKS")
    except pymysql.MySQLError:  # no such table, or not for this account
        return None
    directory = str(row[0]) if row else "/"
    on = [(str(path), int(kib) * 1024) for path, kib in disks if directory.startswith(str(path).rstrip("/") + "/")]
    return max(on, key=lambda one: len(one[0]))[1] if on else None


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
