"""The service's own rows in a log: which migration wrote a transaction, and which role a side has from there on.

Only the columns that are needed are read, by the layout that sql/target gives these tables; neither the catalog nor the
table map is asked. Sources: MySQL's `libs/mysql/binlog/event/rows_event.h`; MariaDB's "Rows event" page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from migrate.model.errors import Code, StopError
from migrate.publish.decode.rows import DELETE, UPDATE, WRITE
from migrate.publish.decode.text import unpack
from migrate.target.fence import FENCE_TABLES
from migrate.target.roles import ROLE

OWN_TABLES: Final = FENCE_TABLES | {ROLE}
_VERSION_2: Final = frozenset({30, 31, 32, 169, 170, 171})
_COMPRESSED: Final = frozenset(range(166, 172))
_ROLE_COLUMNS: Final = 4
_NUMBERS: Final = 16  # bytes of `version` and `writes`


@dataclass(frozen=True, slots=True)
class OwnWrites:
    """What a publisher knows of the side that it reads. ours: the migration and the stream the other way, whose
    transactions are not published again; writer: the stream that writes there; role: the side's, at first. databases:
    those of its tables; a copy of one, loaded beside it, has these rows too."""

    ours: frozenset[str]
    writer: str
    role: str
    databases: frozenset[str]


def migration_of(kind: int, body: bytes) -> str:
    """The migration that a row event of a fence table is of: the first column of its first row.

    kind, body: of the event, as `RowEvent` has them. Raises StopError where it has another layout.
    """
    rows, at, width = _rows(kind, body)
    return _text(rows, at + (width + 7) // 8)[0]


def roles_of(kind: int, body: bytes) -> list[tuple[str, str]]:
    """(stream that writes there, role) of each row as an event of the role table leaves it; none of a delete.

    Raises StopError where it has another layout.
    """
    rows, at, width = _rows(kind, body)
    if width != _ROLE_COLUMNS:
        raise StopError(
            f"{ROLE} has {width} columns in the log", hint="nobody else may change the service's tables", code=Code.LOG
        )
    found = []
    while at < len(rows):
        migration, at = _text(rows, at + 1)
        role, at = _text(rows, at)
        at += _NUMBERS
        found.append((migration, role))
    return found[1::2] if kind in UPDATE else found if kind in WRITE else []


def _rows(kind: int, body: bytes) -> tuple[bytes, int, int]:
    """The bytes with the rows, the offset in them of the first one's NULL bitmap, and how many columns they have."""
    if kind not in WRITE | UPDATE | DELETE:
        raise StopError(f"event type {kind} is no row event of a table of the service's", code=Code.LOG)
    at = 8 + (int.from_bytes(body[8:10], "little") if kind in _VERSION_2 else 0)
    width = body[at]  # below 251, so one byte
    at += 1 + (width + 7) // 8 * (2 if kind in UPDATE else 1)
    if kind in _COMPRESSED:
        return unpack(body, at), 0, width
    return body, at, width


def _text(rows: bytes, at: int) -> tuple[str, int]:
    """A VARCHAR of up to 255 bytes, and what comes behind it."""
    end = at + 1 + rows[at]
    if end > len(rows):
        raise StopError("a row of a table of the service's ends early in the log", code=Code.LOG)
    return rows[at + 1 : end].decode(), end
