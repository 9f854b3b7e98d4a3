"""JSON on MySQL with the types its text does not show (docs/decisions/0013).

MySQL's binary JSON has scalars that no JSON text can stand for: DECIMAL, small unsigned integers, dates and times,
bytes. Their canonical text is what MySQL prints, with white space before the scalar that says what it was: any JSON
parser reads the same value, and `JsonValue` writes it back as the type it had.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from pymysql.converters import escape_string

from migrate.model.errors import Code, StopError

INTEGER: Final = "\t"  # of the other signedness than MySQL reads from its text
DECIMAL: Final = "\n"
OPAQUE: Final = "\r"  # which of them, its text shows: a date, a time, both, or base64:typeN:
TIMESTAMP: Final = "\r\r"
UNSIGNED_FROM: Final = 2**32
"""MySQL reads an integer from here on as unsigned from text, one below as signed (json_dom.cc)."""

_MARK_OF: Final = {
    **dict.fromkeys(("INTEGER", "UNSIGNED INTEGER"), INTEGER),
    "DECIMAL": DECIMAL,
    "TIMESTAMP": TIMESTAMP,
    **dict.fromkeys(("DATE", "TIME", "DATETIME", "BLOB", "BIT", "OPAQUE"), OPAQUE),
}
"""By what JSON_TYPE says."""

_MARKS: Final = re.compile(r"[\t\n\r]")
_TOKEN: Final = re.compile(r'([\t\n\r]*)("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[\[\]{},:]) ?')
_DIGITS: Final = re.compile(r"\d{1,20}")
_DECIMAL: Final = re.compile(r"-?(\d+)(?:\.(\d+))?")
_BYTES: Final = re.compile(r"base64:type(\d+):([A-Za-z0-9+/=\n]*)")
_DATETIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}")
_CASTS: Final = (
    (re.compile(r"\d{4}-\d\d-\d\d"), "DATE"),
    (re.compile(r"-?\d\d+:\d\d:\d\d\.\d{6}"), "TIME(6)"),
    (_DATETIME, "DATETIME(6)"),
)
_VARCHAR, _BIT, _MEDIUM_BLOB, _LONG_BLOB, _BLOB, _STRING = 15, 16, 250, 251, 252, 254
_LONGER_THAN: Final = {_MEDIUM_BLOB: 70_000, _LONG_BLOB: 17_000_000}
"""Bytes an expression has to be able to give, for the server to call its result a MEDIUMBLOB or a LONGBLOB."""


class JsonValue:
    """A document with typed scalars inside, as the driver writes it (`migrate.mysql.connection` knows it)."""

    def __init__(self, text: str) -> None:
        """Raises StopError for a type that no expression gives."""
        self.plain = _MARKS.sub("", text)
        self._typed = [
            (node.path, _expression(node.mark, text[node.start : node.end])) for node in _all(_parse(text)) if node.mark
        ]

    def __len__(self) -> int:
        return len(self.plain)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonValue) and (self.plain, self._typed) == (other.plain, other._typed)

    def __hash__(self) -> int:
        return hash(self.plain)

    def as_json(self) -> str:
        """SQL that gives the document with its types, on MySQL."""
        pairs = ", ".join(f"'{escape_string(path)}', {sql}" for path, sql in self._typed)
        return f"JSON_REPLACE({self.as_text()}, {pairs})"

    def as_text(self) -> str:
        """SQL that gives the text MySQL prints, for a server whose JSON is text."""
        return f"'{escape_string(self.plain)}'"


def to_parameter(text: str | None) -> JsonValue | str | None:
    """Canonical text as the driver writes it. Raises StopError, see `JsonValue`."""
    return text if text is None or _MARKS.search(text) is None else JsonValue(text)


def selected(name: str) -> str:
    """The SELECT expression that `from_server` reads: the text, behind lists of the typed scalars where there are any.

    name: the quoted column. MariaDB passes over such a comment; its JSON is text.
    """
    root = f"IF({_marked(name)}, CONCAT('r[[1, \"', JSON_TYPE({name}), '\"]]\\r'), ''), "
    lists = [
        f"COALESCE((SELECT CONCAT('{tag}', JSON_ARRAYAGG(JSON_ARRAY(n, JSON_TYPE(v))), '\\r') FROM JSON_TABLE({name},"
        f" '{path}' COLUMNS (n FOR ORDINALITY, v JSON PATH '$')) AS w WHERE {_marked('v')}), ''), "
        for tag, path in (("m", "$**.*"), ("e", "$**[*]"))
    ]
    return f"CONCAT(/*!50799 {root}{''.join(lists)}*/ {name})"


def _marked(value: str) -> str:
    """SQL that says whether a JSON value has a type its text does not show; NULL for what is no JSON."""
    types = ", ".join(f"'{kind}'" for kind in _MARK_OF)
    return (
        f"CASE JSON_TYPE({value}) WHEN 'INTEGER' THEN {value} >= {UNSIGNED_FROM} WHEN 'UNSIGNED INTEGER' THEN"
        f" {value} < {UNSIGNED_FROM} ELSE JSON_TYPE({value}) IN ({types}) END"
    )


def from_server(raw: bytes | None) -> str | None:
    """Canonical text from the bytes of `selected`."""
    if raw is None:
        return None
    *lists, text = raw.decode("utf-8").split("\r")
    if not lists:
        return text
    root = _parse(text)
    walks = {"r": [root], "m": list(_children(root, of_objects=True)), "e": list(_children(root, of_objects=False))}
    marks: dict[int, str] = {}
    for listed in lists:
        for number, kind in json.loads(listed[1:]):
            marks[walks[listed[0]][number - 1].start] = _MARK_OF[kind]
    at, pieces = 0, []
    for start in sorted(marks):
        pieces += [text[at:start], marks[start]]
        at = start
    return "".join([*pieces, text[at:]])


# -- the text


@dataclass(slots=True)
class _Node:
    path: str
    start: int
    end: int
    mark: str = ""
    is_object: bool = False
    children: list[_Node] = field(default_factory=list)


def _all(node: _Node) -> Iterator[_Node]:
    yield node
    for child in node.children:
        yield from _all(child)


def _children(node: _Node, *, of_objects: bool) -> Iterator[_Node]:
    """What the paths `$**.*` and `$**[*]` find, in their order: a container's children, then those of each child."""
    if node.is_object is of_objects:
        yield from node.children
    for child in node.children:
        yield from _children(child, of_objects=of_objects)


def _parse(text: str) -> _Node:
    """The tree of a document as MySQL prints it, with or without marks. Raises StopError when it is none."""
    tokens = _tokens(text)
    try:
        root = _read(text, tokens, next(tokens), "$")
    except (StopIteration, RecursionError):
        raise _malformed() from None
    if next(tokens, None) is not None:
        raise _malformed()
    return root


def _tokens(text: str) -> Iterator[re.Match[str]]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _malformed()
        yield found
        at = found.end()


def _read(text: str, tokens: Iterator[re.Match[str]], token: re.Match[str], path: str) -> _Node:
    node = _Node(path, token.start(2), token.end(2), token[1])
    if token[2] not in ("{", "["):
        return node
    node.is_object = token[2] == "{"
    token = next(tokens)
    while token[2] not in ("}", "]"):
        if token[2] == ",":
            token = next(tokens)
        leg = f"[{len(node.children)}]"
        if node.is_object:
            leg = f".{token[2]}"
            next(tokens)  # the colon
            token = next(tokens)
        node.children.append(_read(text, tokens, token, path + leg))
        token = next(tokens)
    return node


def _malformed() -> StopError:
    return StopError(
        "a JSON document is not written as MySQL prints it", hint="see docs/messages.md on JSON", code=Code.VALUE
    )


# -- the SQL


def _expression(mark: str, token: str) -> str:
    """SQL for a scalar of the type that the mark and its text say. Raises StopError when there is none."""
    if mark == INTEGER and _DIGITS.fullmatch(token):
        return f"CAST({token} AS {'UNSIGNED' if int(token) < UNSIGNED_FROM else 'SIGNED'})"
    if mark == DECIMAL and (digits := _DECIMAL.fullmatch(token)):
        scale = len(digits[2] or "")
        return f"CAST('{token}' AS DECIMAL({len(digits[1]) + scale},{scale}))"
    if mark in (OPAQUE, TIMESTAMP) and token.startswith('"'):
        return _opaque(mark, json.loads(token))
    raise _malformed()


def _opaque(mark: str, value: str) -> str:
    if mark == TIMESTAMP:
        if not _DATETIME.fullmatch(value):
            raise _malformed()
        return _column("TIMESTAMP(6)", f"'[\"{value}\"]'")
    for pattern, kind in _CASTS:
        if pattern.fullmatch(value):
            return f"CAST('{value}' AS {kind})"
    found = _BYTES.fullmatch(value)
    if found is None:
        raise _malformed()
    try:
        return _bytes(int(found[1]), base64.b64decode(found[2].replace("\n", ""), validate=True))
    except binascii.Error:
        raise _malformed() from None


def _bytes(kind: int, raw: bytes) -> str:
    """A value of one of the server's types of bytes; most expressions give another one of them."""
    if kind == _BIT and 1 <= len(raw) <= 8:
        return _column(f"BIT({len(raw) * 8})", f"'[{int.from_bytes(raw, 'big')}]'")
    literal = f"x'{raw.hex()}'"
    if kind in _LONGER_THAN:
        return f"IF(RAND() > 2, REPEAT(x'00', {_LONGER_THAN[kind]}), {literal})"
    if kind == _VARCHAR and len(raw) <= 65_535:
        return _column(f"VARBINARY({max(1, len(raw))})", f"JSON_ARRAY({literal})")
    if kind == _STRING and len(raw) <= 255:
        return _column(f"BINARY({len(raw)})", f"JSON_ARRAY({literal})")
    if kind == _BLOB:
        return _column("LONGBLOB", f"JSON_ARRAY({literal})")
    raise StopError(
        f"JSON with a value of the server's type {kind} inside cannot be written as it is",
        hint="its text begins with base64:type; store it as a string, as VARBINARY or as BLOB at the source",
        code=Code.VALUE,
    )


def _column(kind: str, document: str) -> str:
    """The first element of an array as a column of a type that has no CAST."""
    return f"(SELECT v FROM JSON_TABLE({document}, '$[0]' COLUMNS (v {kind} PATH '$' ERROR ON ERROR)) AS w)"
