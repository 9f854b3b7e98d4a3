"""What a table computes by itself: generated columns, keys on expressions and checks, as its definition says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from migrate.model.table import Table
from migrate.mysql.capabilities import Capability, can
from migrate.mysql.connection import Connection
from migrate.mysql.quoting import printed

_NAMED = re.compile(r"\s*(`(?:[^`]|``)+`)")
_CHECKED = re.compile(r"\s*(?:CONSTRAINT )?`((?:[^`]|``)+)`")
_CHECK = " CHECK ("
_QUOTES = "'`\""
_OPENING = " AS ("
_LONGEST = 100_000  # characters, of an expression over columns that read each other


@dataclass(frozen=True, slots=True)
class Expression:
    """A generated column, a unique key on an expression or a check: what it is computed from, whether that is kept."""

    column: str  # or the name of the key, or the check
    text: str
    stored: bool
    key: bool = False  # or a check: no column


def expressions(statement: str, table: Table) -> list[Expression]:
    """Of all generated columns. statement: SHOW CREATE TABLE's, as `show_create_whole` gives it."""
    lines = {
        named[1]: (line, named.end()) for line in statement.split("\n") if (named := _NAMED.match(line)) is not None
    }
    found = []
    for column in table.columns:
        line, behind = lines.get(printed(column.name), ("", 0))
        start = _outside(line, _OPENING, behind) if column.generated else 0
        if start:
            end = closing(line, start)
            stored = re.match(r" (?:STORED|PERSISTENT)\b", line[end + 1 :]) is not None
            found.append(Expression(column.name, line[start:end], stored))
    return found


def inlined(one: Expression, of: Mapping[str, str]) -> Expression:
    """With what generated columns are computed from in place of their names. of: that, by column."""
    texts = {name: text for name, text in of.items() if one.key or name != one.column}
    if not texts:
        return one
    names = re.compile("|".join(re.escape(printed(name)) for name in sorted(texts, key=len, reverse=True)))
    text = one.text
    for _ in texts:  # a column may read another one
        after = names.sub(lambda found: f"({texts[found[0][1:-1].replace('``', '`')]})", text)
        if after == text or len(after) > _LONGEST:
            break
        text = after
    return replace(one, text=text)


def unique_keys(connection: Connection, table: Table) -> list[Expression]:
    """Of all parts of unique keys that are expressions, which MySQL alone has (MySQL manual, "CREATE INDEX Statement",
    "Functional Key Parts"). Raises the driver's error."""
    if not can(connection, Capability.KEYS_ON_EXPRESSIONS):
        return []
    rows = connection.query(
        "SELECT INDEX_NAME, EXPRESSION FROM information_schema.STATISTICS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND NON_UNIQUE = 0 AND EXPRESSION IS NOT NULL",
        (table.database, table.name),
    )
    return [Expression(str(name), unescaped(str(text)), stored=True, key=True) for name, text in rows]


def checks(statement: str) -> list[Expression]:
    """Of the CHECK constraints that are enforced, by name; MariaDB has some on their column's line, and calls them by
    the column. statement: as `expressions` has it."""
    found = []
    for line in statement.split("\n"):
        named = _CHECKED.match(line)
        if named is not None and (start := _outside(line, _CHECK, named.end())):
            end = closing(line, start)
            if "NOT ENFORCED" not in line[end:]:
                found.append(Expression(named[1].replace("``", "`"), line[start:end], stored=True, key=True))
    return found


def _outside(line: str, wanted: str, at: int) -> int:
    """Behind the first such text that is in no quotes and no parentheses; 0 where there is none."""
    while at < len(line):
        if line.startswith(wanted, at):
            return at + len(wanted)
        if line[at] == "(":
            at = closing(line, at + 1)
        elif line[at] in _QUOTES:
            at = quoted_to(line, at)
        at += 1
    return 0


def unescaped(text: str) -> str:
    """MySQL's catalog has an expression as in a string: a backslash before each quote and backslash."""
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def closing(line: str, start: int) -> int:
    """Where the parenthesis closes that was opened before `start`."""
    depth, at = 1, start
    while at < len(line):
        character = line[at]
        if character in _QUOTES:
            at = quoted_to(line, at)
        depth += (character == "(") - (character == ")")
        if not depth:
            return at
        at += 1
    return len(line)


def quoted_to(line: str, at: int) -> int:
    """Where the quotes close that open at `at`."""
    mark, at = line[at], at + 1
    while at < len(line) and line[at] != mark:
        at += 2 if line[at] == "\\" and mark != "`" else 1
    return at
