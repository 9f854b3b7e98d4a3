"""Character sets: the target must have every collation of the tables; a server of an earlier version may not."""

from __future__ import annotations

from collections.abc import Iterable

from migrate.mysql.connection import Connection
from migrate.preflight.result import Result, Verdict
from migrate.target.routing import PlannedTable


def check_target(connection: Connection, tables: Iterable[PlannedTable], flavours: dict[str, str]) -> list[Result]:
    """Of sources of the same flavour; between two flavours see `mixed_flavours`. flavours: by source."""
    rows = connection.query("SELECT COLLATION_NAME FROM information_schema.COLLATIONS")
    known = {str(row[0]).lower() for row in rows}
    used: dict[str, list[str]] = {}
    for planned in tables:
        if flavours[planned.table.source] != connection.flavour:
            continue
        for column in planned.table.columns:
            if column.collation:
                used.setdefault(column.collation, []).append(f"{planned.table.full_name}.{column.name}")
    # MariaDB lists uca1400 collations without their character set, which any of them takes.
    missing = {
        name: where for name, where in used.items() if not {name.lower(), name.partition("_")[2].lower()} & known
    }
    results = [
        Result(
            "charset",
            name,
            Verdict.PROBLEM,
            f"{connection.name} has no collation {name}, which {where[0]}{' and others have' if where[1:] else ' has'}",
            "bring the target's server to the source's version, or make the target tables by hand with another one",
        )
        for name, where in missing.items()
    ]
    told = f"{connection.name}: has every collation of the tables"
    return results or [Result("charset", connection.name, Verdict.PASS, told)]
