"""The outcome of a verification: a certificate as JSON and as a page to read."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from migrate.model.words import counted
from migrate.mysql.connection import Connection
from migrate.mysql.readable import log_end
from migrate.verify.recheck import Difference
from migrate.verify.verified import TableVerified

VERSION = 1
METHOD = (
    "Per chunk of the key's whole range, the source and all places together gave the count of their rows and the XOR of"
    " the rows' SHA-256 digests, computed inside the servers, and each row's place, whether shards are target or"
    " source, was compared with the table's rule. Where anything differed, keys were compared one by one, and looked at"
    " again. That the chunks meet, and have every row, was held against each table's own count on both sides."
)
BITS = " Where a server is not MySQL 8 or later it was the XOR of their first 64 bits."
JSON = (
    " MySQL's JSON documents were compared by their text and the size they are stored in, which does not show the type"
    " of every scalar."
)
JSON_TYPES = " MySQL's JSON documents were compared by their text and the types of their scalars."
BROADCAST = (
    " Of a broadcast table each node was compared so by itself, as it has every row; rows at the nodes were counted"
    " together."
)
MIRRORS = " Of a broadcast table each node but the first was held against the first one as a whole."
MIXED = (
    " Between MySQL and MariaDB, between two versions of MariaDB, and with a server before MySQL 8, floating-point"
    " numbers were compared by value, JSON documents by their text, and all else by its bytes."
)


@dataclass(frozen=True, slots=True)
class SourcePoint:
    """A source's binlog end before and after the comparison."""

    source: str
    before: str  # file:position, with the GTID set where there is one
    after: str


def binlog_end(connection: Connection) -> str:
    """Where the source's binlog ends now, as text. Raises StopError when it writes none."""
    end = log_end(connection)
    gtid = end.gtid_set or _mariadb_gtid(connection)
    return f"{end.file}:{end.pos}" + (f" {gtid}" if gtid else "")


def _mariadb_gtid(connection: Connection) -> str:
    row = connection.one("SELECT @@gtid_binlog_pos") if connection.flavour == "mariadb" else None
    return str(row[0]) if row and row[0] else ""


def make(
    migration: str,
    verification: int,
    started: datetime,
    finished: datetime,
    sources: Sequence[SourcePoint],
    tables: Sequence[TableVerified],
    *,
    flavours: Collection[frozenset[str]] = (frozenset({"mysql"}),),
    json_types: bool = False,
    resumed: int = 0,
) -> dict[str, Any]:
    """The certificate as JSON-ready values.

    flavours: for each table those of its servers (`Sessions.flavours`); json_types: as the setting; resumed: how many
    processes went on with the verification after the first.
    """
    return {
        "version": VERSION,
        "migration": migration,
        "verification": verification,
        "started": started.isoformat(timespec="milliseconds"),
        "finished": finished.isoformat(timespec="milliseconds"),
        "resumed": resumed,
        "method": _method(flavours, json_types, tables),
        "sources": [asdict(point) for point in sources],
        "tables": [_table(table) for table in tables],
        "rows": sum(table.rows for table in tables),
        "differences": sum(table.differences for table in tables),
        "in_motion": sum(table.in_motion for table in tables),
        "repaired": sum(table.repaired for table in tables),
        "clean": all(table.clean for table in tables),
    }


def _method(flavours: Collection[frozenset[str]], json_types: bool, tables: Sequence[TableVerified]) -> str:
    plain = frozenset({"mysql"})
    told = {
        BITS: any(one != plain for one in flavours),
        MIXED: any(len(one) > 1 or "mysql 5" in one for one in flavours),
        JSON_TYPES if json_types else JSON: plain in flavours,
        BROADCAST: any(table.nodes == table.places for table in tables),
        MIRRORS: any(table.nodes > table.places for table in tables),  # read at its nodes, and written at one place
    }
    return METHOD + "".join(sentence for sentence, applies in told.items() if applies)


def _table(table: TableVerified) -> dict[str, Any]:
    entry = asdict(table)
    entry |= {"key": list(table.key), "columns": list(table.columns), "seconds": round(table.seconds, 1)}
    entry["unaccounted"] = list(table.unaccounted)
    entry["named"] = [_named(item) for item in table.named]
    entry["mended"] = [_named(item) for item in table.mended]
    return entry


def _named(item: Difference) -> dict[str, Any]:
    return {"key": list(item.key), "kind": item.kind.value, "detail": item.detail}


def page(certificate: Mapping[str, Any]) -> str:
    """The certificate as a page to read."""
    lines = [
        f"Verification {certificate['verification']} of migration {certificate['migration']}",
        verdict(certificate),
        "",
        f"started   {certificate['started']}",
        f"finished  {certificate['finished']}",
    ]
    if told := was_resumed(certificate):
        lines.append(f"resumed   {told}")
    for point in certificate["sources"]:
        lines += [f"source    {point['source']}: from {point['before']}", f"          to {point['after']}"]
    lines += ["", "how       " + certificate["method"], ""]
    if added := certificate.get("added"):
        lines += [f"not compared, as they were added meanwhile: {', '.join(added)}", ""]
    for table in certificate["tables"]:
        lines.append(
            f"{table['table']}: {counted(table['rows'], 'row')} in {counted(table['chunks'], 'chunk')} over"
            f" {counted(table['places'], 'place')}, {_nodes(table)}{counted(table['differences'], 'difference')}"
            + _moving(table["in_motion"])
        )
        lines += [f"  key {_key(table['key'])}; columns {', '.join(table['columns'])}"]
        lines += [f"  not accounted for: {told}" for told in table.get("unaccounted", ())]
        lines += [f"  {item['kind']} {typed(item['key'])}: {item['detail']}" for item in table["named"]]
        if (more := table["differences"] - len(table["named"]) - len(table.get("unaccounted", ()))) > 0:
            lines.append(f"  and {more} more")
        lines += _repaired(table)
    return "\n".join(lines) + "\n"


def _nodes(table: Mapping[str, Any]) -> str:
    """Of a broadcast table; certificates of before have nothing of it."""
    return f"at each of {counted(count, 'node')}, " if (count := table.get("nodes", 0)) else ""


def _repaired(table: Mapping[str, Any]) -> list[str]:
    """What was repaired; certificates of before have nothing of it."""
    count, mended = table.get("repaired", 0), table.get("mended", [])
    if not count:
        return []
    lines = [f"  {counted(count, 'key')} repaired: read at the source again, and compared again"]
    lines += [f"    was {item['kind']} {typed(item['key'])}: {item['detail']}" for item in mended]
    return lines + ([f"    and {count - len(mended)} more"] if count > len(mended) else [])


def verdict(certificate: Mapping[str, Any]) -> str:
    """The outcome in one line."""
    if certificate["clean"]:
        if certificate.get("all_tables", True):
            return "CLEAN: source and target are equal"
        return "CLEAN: the tables below are equal; not all tables were compared"
    return f"NOT CLEAN: {counted(certificate['differences'], 'difference')}" + _moving(certificate["in_motion"])


def was_resumed(certificate: Mapping[str, Any]) -> str:
    """How often it was gone on with, "" for never; certificates of before have nothing of it."""
    count = certificate.get("resumed", 0)
    return f"{counted(count, 'time')}: chunks compared before it was stopped were not compared again" if count else ""


def _moving(keys: int) -> str:
    return f", {counted(keys, 'key')} kept changing while looked at" if keys else ""


def _key(parts: Sequence[str]) -> str:
    return "(" + ", ".join(map(shown, parts)) + ")"


def typed(key: Sequence[str]) -> str:
    """A row's key as commands take it: its text, or a JSON list of texts."""
    (first, *others), printable = key, all(part.isprintable() for part in key)
    return json.dumps([*key], ensure_ascii=not printable) if others or not printable or first.startswith("[") else first


def shown(part: str) -> str:
    """A key's text for a page or a terminal: as a JSON string where control characters or marks of direction are."""
    return part if part.isprintable() else json.dumps(part)
