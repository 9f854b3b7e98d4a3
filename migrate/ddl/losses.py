"""What a change of a definition does to values that are there: which columns keep them, and which values may be lost.

Widening is told from a list of what surely keeps every value; whatever is not on it counts as a loss.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from migrate.ddl.definition import Definition
from migrate.mysql.catalog import OF_OLD_TIMES
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import printed

_INTEGERS = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_TEXTS = {"tinytext": 255, "text": 65_535, "mediumtext": 16_777_215, "longtext": 4_294_967_295}
_BLOBS = {"tinyblob": 255, "blob": 65_535, "mediumblob": 16_777_215, "longblob": 4_294_967_295}
_VARIABLE = {"varchar": _TEXTS, "char": _TEXTS, "varbinary": _BLOBS, **dict.fromkeys(_TEXTS, _TEXTS)} | dict.fromkeys(
    _BLOBS, _BLOBS
)
_LETTERS = {"ascii": 1, "latin1": 2, "utf8mb3": 3, "utf8": 3, "utf8mb4": 4}
"""Character sets, each of which has every letter of those before it but for latin1 in utf8mb3, which has too."""
_MEMBER = re.compile(r"'(?:[^']|'')*'")


@dataclass(frozen=True, slots=True)
class ColumnType:
    """Of a column, as the catalog has it."""

    name: str
    text: str  # COLUMN_TYPE
    kind: str  # DATA_TYPE
    octets: int
    letters: int
    precision: int
    scale: int
    moments: int  # digits of fractions of a second
    charset: str
    collation: str
    generated: bool

    @property
    def unsigned(self) -> bool:
        return "unsigned" in self.text

    @property
    def stored(self) -> tuple[object, ...]:
        """What tells how its values are written, and whose they are."""
        return self.text, self.collation, self.generated


def types(connection: Connection, database: str, table: str) -> dict[str, ColumnType]:
    """The columns of a table by their quoted names. Raises the driver's error."""
    rows = connection.query(
        "SELECT COLUMN_NAME, COLUMN_TYPE, DATA_TYPE, CHARACTER_OCTET_LENGTH, CHARACTER_MAXIMUM_LENGTH,"
        " NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, CHARACTER_SET_NAME, COLLATION_NAME, EXTRA"
        " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        [database, table],
    )
    return {printed(str(row[0])): _type(row) for row in rows}


def _type(row: tuple[Any, ...]) -> ColumnType:
    name, text, kind, octets, letters, precision, scale, moments, charset, collation, extra = row
    generated = "GENERATED" in str(extra).upper().replace("DEFAULT_GENERATED", "")
    return ColumnType(
        *(str(name), _lowered(str(text).removesuffix(OF_OLD_TIMES)), str(kind).lower()),
        *(int(octets or 0), int(letters or 0), int(precision or 0), int(scale or 0), int(moments or 0)),
        *(str(charset or ""), str(collation or ""), generated),
    )


def _lowered(text: str) -> str:
    """The members of an ENUM or SET keep their letters."""
    return "".join(one if one.startswith("'") else one.lower() for one in re.split(f"({_MEMBER.pattern})", text))


def kept(before: Definition, after: Definition, renamed: Mapping[str, str], dropped: Iterable[str]) -> dict[str, str]:
    """The present name of each column that keeps its values, by the one before; quoted, as the definitions have them.

    renamed: old names by new ones, dropped: names, both as a statement writes them, in any case.
    """
    olds = {printed(new).lower(): printed(old).lower() for new, old in renamed.items()}
    gone = {printed(name).lower() for name in dropped}
    had = {name.lower(): name for name in before.columns}
    moved = {*olds.values()}
    found = {}
    for name in after.columns:
        old = olds.get(name.lower(), name.lower())
        is_itself = old == name.lower()
        if old in had and old not in gone and not (is_itself and old in moved and name.lower() not in olds):
            found[had[old]] = name
    return found


def lost(had: Mapping[str, ColumnType], has: Mapping[str, ColumnType], kept_: Mapping[str, str]) -> Iterator[str]:
    """What of the values goes, a line each. kept_: as `kept` gives it, for this direction."""
    for name, column in had.items():
        if column.generated:
            continue
        present = kept_.get(name)
        if present is None:
            yield f"the values of column {column.name}"
        elif has[present].generated:
            yield f"the values of column {column.name}, which the server computes then"
        elif not _keeps(column, has[present]):
            yield (
                f"values of column {column.name} that {_told(has[present])} does not hold as they are"
                f" (now {_told(column)})"
            )


def _told(column: ColumnType) -> str:
    return f"{column.text} {column.charset}".strip()


def _keeps(one: ColumnType, two: ColumnType) -> bool:
    """Whether every value of a column is the same in one of the other type."""
    if one.kind in _VARIABLE and two.kind in _VARIABLE:
        return _keeps_text(one, two)
    if (one.text, one.charset) == (two.text, two.charset):
        return True
    if one.kind in _INTEGERS and two.kind in _INTEGERS:
        return _keeps_integer(one, two)
    if one.kind != two.kind:
        return (one.kind, two.kind) == ("float", "double") and not (two.unsigned and not one.unsigned)
    if one.kind == "decimal":
        whole = two.precision - two.scale >= one.precision - one.scale
        return whole and two.scale >= one.scale and (one.unsigned or not two.unsigned)
    if one.kind in ("datetime", "timestamp", "time"):
        return two.moments >= one.moments
    if one.kind in ("enum", "set"):
        return _MEMBER.findall(two.text)[: len(had := _MEMBER.findall(one.text))] == had and _letters(one, two)
    return False


def _keeps_integer(one: ColumnType, two: ColumnType) -> bool:
    size, other = _INTEGERS[one.kind], _INTEGERS[two.kind]
    if one.unsigned == two.unsigned:
        return other >= size
    return one.unsigned and other > size


def _keeps_text(one: ColumnType, two: ColumnType) -> bool:
    if _VARIABLE[one.kind] is not _VARIABLE[two.kind] or not _letters(one, two):
        return False
    if two.kind == "char":
        return one.kind == "char" and two.letters >= one.letters
    if two.kind in ("varchar", "varbinary"):
        return one.kind not in (_TEXTS | _BLOBS) and two.letters >= one.letters
    return _VARIABLE[two.kind][two.kind] >= _most_octets(one, two)


def _most_octets(one: ColumnType, two: ColumnType) -> int:
    """Of a value of one column in the other's character set."""
    wide = _LETTERS.get(two.charset, 4) if one.charset else 1
    if one.kind not in (_TEXTS | _BLOBS):
        return one.letters * wide
    return _VARIABLE[one.kind][one.kind] * (wide if one.charset != two.charset else 1)


def _letters(one: ColumnType, two: ColumnType) -> bool:
    if one.charset == two.charset:
        return True
    known = one.charset in _LETTERS and two.charset in _LETTERS
    return known and _LETTERS[two.charset] > _LETTERS[one.charset]
