"""What a delete of a parent costs whose children go by a foreign key, which no log has: against children that are
deleted by statements of their own.

    python -m bench.cascades                   # PARENTS=5000, AT_ONCE=20

MariaDB, three children a parent, two target databases of four tables, 16 partitions. Each way deletes as many parents,
AT_ONCE in a transaction; what is told are the CPU seconds of publisher and consumer from the first delete until
everything is at the target, and the time until then.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import closing
from pathlib import Path

from bench.capture import run_directory, say
from sandbox import snippet
from sandbox.demo.migration import Migration
from sandbox.settings import Flavour
from sandbox.stack import Sandbox

_CHILDREN = 3
_AT_ONCE = int(os.environ.get("AT_ONCE") or 20)
_CONFIG = """\
name: cascades
{servers}
databases:
  ds_0: {{target: target1, database: c_0}}
  ds_1: {{target: target1, database: c_1}}
consume: {{merge_interval_seconds: 0.5}}
publish: {{flush_seconds: 0.2, heartbeat_seconds: 0.5}}
run_dir: {directory}
tables:
{tables}
"""
_TABLE = """\
  - name: shop.{name}
    sharding:
      nodes: "ds_${{0..1}}.{name}_${{0..3}}"
      database: {{column: id, algorithm: MOD, props: {{sharding-count: 2}}}}
      table: {{column: id, algorithm: MOD, props: {{sharding-count: 4}}}}
"""


def main() -> None:
    parents = int(os.environ.get("PARENTS") or 5000)
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir=run_directory()) as name,
        Sandbox(Flavour.MARIADB, Path(name) / "servers", targets=1, keep=False) as box,
    ):
        box.source.execute("CREATE DATABASE shop")
        box.source.execute(
            "CREATE TABLE parent (id INT PRIMARY KEY)",
            "CREATE TABLE child (id INT PRIMARY KEY, parent INT, v CHAR(100) NOT NULL DEFAULT '',"
            " FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE)",
            database="shop",
        )
        tables = "".join(_TABLE.format(name=one) for one in ("parent", "child"))
        config = _CONFIG.format(servers=snippet.config(box), directory=Path(name) / "run", tables=tables)
        migration = Migration(box, Path(name), config)
        migration.do("init")
        migration.start()
        try:
            migration.ask("copy")
            for way in ("by statements of their own", "by the foreign key") * 2:
                _fill(box, parents)
                migration.ask("drain")
                began, cpu = time.monotonic(), _cpu(migration)
                _delete(box, parents, explicit=way.startswith("by statements"))
                migration.ask("drain")
                left = sum(
                    int(box.targets[0].query(f"SELECT COUNT(*) FROM c_{number}.child_{table}")[0][0])
                    for number in (0, 1)
                    for table in range(4)
                )
                now = _cpu(migration)
                spent = ", ".join(f"{one} {now[one] - cpu[one]:.2f} s" for one in now)
                say(f"children {way}: {time.monotonic() - began:.1f} s; CPU: {spent}; {left} children left")
        finally:
            migration.stop()


def _fill(box: Sandbox, parents: int) -> None:
    rows = [f"({number})" for number in range(parents)]
    children = [f"({number * _CHILDREN + child}, {number})" for number in range(parents) for child in range(_CHILDREN)]
    box.source.execute(
        f"INSERT INTO parent VALUES {', '.join(rows)}",
        f"INSERT INTO child (id, parent) VALUES {', '.join(children)}",
        database="shop",
    )


def _delete(box: Sandbox, parents: int, *, explicit: bool) -> None:
    with closing(box.source.connect("shop", autocommit=False)) as session, session.cursor() as cursor:
        for first in range(0, parents, _AT_ONCE):
            which = f"BETWEEN {first} AND {first + _AT_ONCE - 1}"
            if explicit:
                cursor.execute(f"DELETE FROM child WHERE parent {which}")
            cursor.execute(f"DELETE FROM parent WHERE id {which}")
            session.commit()


def _cpu(migration: Migration) -> dict[str, float]:
    """Seconds by process."""
    found = {}
    for process in ("publish", "consume"):
        pid = migration.pid(process)
        words = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
        found[process] = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    return found


if __name__ == "__main__":
    main()
