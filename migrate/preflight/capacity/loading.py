"""Whether the full copy can load rows, or has to insert them."""

from __future__ import annotations

from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict


def check_target(connection: Connection, name: str) -> list[Result]:
    """A note when the server forbids LOAD DATA LOCAL."""
    row = connection.one("SELECT @@local_infile")
    if row is not None and int(row[0]):
        return []
    told = f"{connection.name}: local_infile is off: `migrate copy` inserts rows, which is slower than loading them"
    mend = "SET GLOBAL local_infile = ON for the time of the copy, or set copy.load: insert"
    return [Result("loading", name, Verdict.NOTE, told, mend)]
