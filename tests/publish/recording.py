"""What a server wrote to its log once, kept in a file of `recorded/`: a test reads it without that server."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from decode_support import RawEvent

from migrate.model.table import Table
from migrate.publish.decode.rows import DecoderCache, Image
from migrate.publish.log.binlog import Event
from migrate.state import schema_history

DIRECTORY = Path(__file__).parent / "recorded"


@dataclass
class Outcome:
    """What the table of one type went through: its events, and its rows as the server printed them."""

    events: list[RawEvent]
    inserted: list[Image]
    updated: list[Image]


@dataclass
class Recording:
    """name: of the server, as "mariadb-10.11"; version: as the server says it."""

    name: str
    version: str
    flavour: str
    charsets: dict[int, str]
    table: Table
    column_types: dict[str, dict[str, str]] = field(default_factory=dict)
    """By table, of the tables of `types`."""
    scripts: dict[str, tuple[str, list[Event]]] = field(default_factory=dict)
    """By name: the log file in which the events begin, and they."""
    types: dict[str, Outcome] = field(default_factory=dict)
    """By case of `tests.types.matrix`."""

    @property
    def mariadb(self) -> bool:
        return self.flavour == "mariadb"

    def decoders(self) -> DecoderCache:
        def types(_database: str, table: str) -> dict[str, str]:
            return self.column_types[table]

        return DecoderCache(self.charsets, mariadb=self.mariadb, column_types=types)

    def save(self) -> Path:
        raw = {
            "version": self.version,
            "flavour": self.flavour,
            "charsets": list(self.charsets.items()),
            "table": [self.table.source, self.table.database, self.table.name, schema_history.dumps(self.table)],
            "column_types": self.column_types,
            "scripts": {name: [file, [_out(one) for one in events]] for name, (file, events) in self.scripts.items()},
            "types": {
                name: [[_out(one) for one in outcome.events], outcome.inserted, outcome.updated]
                for name, outcome in self.types.items()
            },
        }
        path = DIRECTORY / f"{self.name}.json.gz"
        path.write_bytes(gzip.compress(json.dumps(raw, separators=(",", ":")).encode(), mtime=0))
        return path

    @classmethod
    def load(cls, path: Path) -> Self:
        raw = json.loads(gzip.decompress(path.read_bytes()))
        table = schema_history.loads(*raw["table"])
        assert table is not None
        return cls(
            path.name.removesuffix(".json.gz"),
            raw["version"],
            raw["flavour"],
            dict(raw["charsets"]),
            table,
            raw["column_types"],
            {name: (file, [Event(*_in(one)) for one in events]) for name, (file, events) in raw["scripts"].items()},
            {
                name: Outcome([_in(one) for one in events], _rows(inserted), _rows(updated))
                for name, (events, inserted, updated) in raw["types"].items()
            },
        )


def recordings() -> list[Recording]:
    """All that are kept, by name."""
    return [Recording.load(path) for path in sorted(DIRECTORY.glob("*.json.gz"))]


def _out(values: tuple[Any, ...]) -> list[Any]:
    return [[b64encode(value).decode()] if isinstance(value, bytes) else value for value in values]


def _in(values: list[Any]) -> tuple[Any, ...]:
    return tuple(b64decode(value[0]) if isinstance(value, list) else value for value in values)


def _rows(raw: list[list[str | None]]) -> list[Image]:
    return [tuple(row) for row in raw]
