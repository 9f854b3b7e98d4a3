"""Many small tables: 1,000 tables of ten rows in 100 databases of one server, which allows 151 sessions.

    make bench-many                            # SCALE=0.1 for 100 tables in 10 databases; FLAVOUR=mariadb

Says the seconds of each command, as a person waits for it, and the most sessions that the target server, which keeps
the state too, had at a time meanwhile, those of `migrate run` among them, which runs from after init to the end. Writes
bench/out/many_tables.json.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench.capture import machine, run_directory, say
from sandbox import snippet
from sandbox.database import DatabaseServer
from sandbox.demo.migration import Migration
from sandbox.settings import Flavour
from sandbox.stack import Sandbox

OUT = Path(__file__).parent / "out" / "many_tables.json"
TABLES = 10
"""In a database."""
ROWS = 10
_SAMPLE_SECONDS = 0.02
_CONFIG = """\
name: many
{servers}
databases:
{databases}
consume: {{merge_interval_seconds: 1}}
tables:
{tables}
run_dir: {directory}
"""


def main() -> None:
    databases = round(100 * float(os.environ.get("SCALE") or 1))
    flavour = Flavour(os.environ.get("FLAVOUR") or "mysql")
    found: dict[str, Any] = {"machine": machine(), "databases": databases, "tables": databases * TABLES, "steps": {}}
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir=run_directory()) as name,
        Sandbox(flavour, Path(name) / "servers", targets=1, keep=False) as box,
    ):
        target = box.targets[0]
        found["server"] = str(target.query("SELECT VERSION()")[0][0])
        fill(box.source, databases)
        migration = Migration(box, Path(name), config(box, databases, Path(name) / "run"))
        step(found, target, "preflight", migration, "preflight")
        step(found, target, "init", migration, "init")
        with sampled(found, target, "run, to its start"):
            migration.start()
        try:
            step(found, target, "copy", migration, "copy")
            step(found, target, "verify", migration, "verify")
            step(found, target, "status", migration, "status")
            check(box, databases)
        finally:
            migration.stop()
        found["max_used_connections"] = status_of(target, "Max_used_connections")
        found["max_connections"] = int(target.query("SELECT @@max_connections")[0][0])
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    say(json.dumps(found, indent=1))


def fill(source: DatabaseServer, databases: int) -> None:
    """Ten tables of ten rows a database."""
    values = ", ".join(f"({number}, {number % 3}, 'row {number}')" for number in range(ROWS))
    with closing(source.connect()) as connection, connection.cursor() as cursor:
        for database in range(databases):
            cursor.execute(f"CREATE DATABASE app_{database:03}")
            cursor.execute(f"USE app_{database:03}")
            for table in range(TABLES):
                cursor.execute(f"CREATE TABLE t_{table} (id BIGINT PRIMARY KEY, user_id INT, v VARCHAR(100))")
                cursor.execute(f"INSERT INTO t_{table} VALUES {values}")


def config(box: Sandbox, databases: int, directory: Path) -> str:
    """Each source database goes to a target database of another name."""
    return _CONFIG.format(
        servers=snippet.config(box),
        databases="\n".join(
            f"  ds_{one:03}: {{target: target1, database: shard_{one:03}}}" for one in range(databases)
        ),
        tables="\n".join(
            f'  - name: "app_{one:03}.*"\n    sharding: {{nodes: "ds_{one:03}.{{table}}"}}' for one in range(databases)
        ),
        directory=directory,
    )


def step(found: dict[str, Any], target: DatabaseServer, name: str, migration: Migration, *arguments: str) -> None:
    """One command to its end."""
    with sampled(found, target, name):
        migration.do(*arguments)


@contextmanager
def sampled(found: dict[str, Any], target: DatabaseServer, name: str) -> Iterator[None]:
    """Notes how long it took and the most sessions there were, but for the one that asks."""
    ended, most = threading.Event(), [0]

    def sample() -> None:
        with closing(target.connect()) as connection, connection.cursor() as cursor:
            while not ended.wait(_SAMPLE_SECONDS):
                cursor.execute("SHOW GLOBAL STATUS LIKE 'Threads_connected'")
                most[0] = max(most[0], int((cursor.fetchone() or ("", 1))[1]) - 1)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    began = time.monotonic()
    try:
        yield
    finally:
        seconds = time.monotonic() - began
        ended.set()
        thread.join()
    found["steps"][name] = {"seconds": round(seconds, 1), "most_sessions": most[0]}
    say(f"{name}: {json.dumps(found['steps'][name])}")


def status_of(server: DatabaseServer, name: str) -> int:
    """A status variable that is a number."""
    return int(server.query(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])


def check(box: Sandbox, databases: int) -> None:
    """Raises when a table lacks rows or has other ones than the source's."""
    names = [(f"{one:03}", f"t_{table}") for one in range(databases) for table in range(TABLES)]
    source = box.source.query("CHECKSUM TABLE " + ", ".join(f"app_{one}.{table}" for one, table in names))
    target = box.targets[0].query("CHECKSUM TABLE " + ", ".join(f"shard_{one}.{table}" for one, table in names))
    if [row[1] for row in source] != [row[1] for row in target] or None in (row[1] for row in source):
        raise AssertionError("the target's tables are not as the source's")


if __name__ == "__main__":
    main()
