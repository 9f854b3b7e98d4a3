"""Whether rows get the same value in a column at every server that fills it: those that a table has in a new column,
and those that an application writes.

Source: MySQL manual, "Data Type Default Values"; MariaDB, "CREATE TABLE", under DEFAULT. Only what the servers print in
SHOW CREATE TABLE is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from migrate.mysql.quoting import printed

OWN_VALUES = "gives the rows that are there other values at the sources than at the targets"
OWN_VALUES_WAY_OUT = (
    "add the column with NULL or a constant as its default, fill it by an UPDATE, and set the other default behind that"
)
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.|'')*'|`(?:[^`]|``)*`|/\*.*?\*/|[\w$]+|[^\s]""", re.S)
_COLUMN = re.compile(r"^\s*(`(?:[^`]|``)+`) (.*?),?$")
_WORD = re.compile(r"[^\W\d][\w$]*")
_SAME = frozenset(
    {"null", "true", "false", "b", "x", "n", "json_object", "json_array", "cast", "convert", "as", "using", "concat"}
    | {"char", "charset", "character", "set", "binary", "signed", "unsigned", "integer", "decimal"}
    | {"date", "time", "datetime", "json"}
)
"""Words of expressions that give one value at any server and any moment."""


def columns(create: str) -> dict[str, str]:
    """What is behind each column's name in a CREATE TABLE statement, as a server prints it; by the quoted name."""
    return {found[1]: found[2] for line in create.splitlines() if (found := _COLUMN.match(line))}


def tokens(column: str) -> list[str]:
    """What is behind a column's name in its words, literals and signs, a comment as one."""
    return _TOKEN.findall(column)


def own_values(before: Mapping[str, str], after: Mapping[str, str], renamed: Mapping[str, str]) -> list[str]:
    """The columns that a table has got, and what gives the rows of each server values of their own there.

    before, after: as `columns` gives them. renamed: the old names of columns, which keep their values, by the new ones,
    in any case.
    """
    had = {name.lower() for name in before} - {printed(old).lower() for old in renamed.values()}
    kept = had | {printed(new).lower() for new in renamed}
    added = {name: text for name, text in after.items() if name.lower() not in kept}
    return [f"{name} {what}" for name, text in added.items() if (what := own_value(text))]


def own_value(column: str) -> str:
    """What gives the rows of each server values of their own: `AUTO_INCREMENT`, or a default by moment, chance or
    sequence as it is written; "" where nothing does.

    column: what SHOW CREATE TABLE prints behind the column's name.
    """
    tokens = [found for found in _TOKEN.finditer(column) if not found[0].startswith("/*")]
    words = [found[0].upper() for found in tokens]
    if "AUTO_INCREMENT" in words:
        return "AUTO_INCREMENT"
    if "DEFAULT" not in words or "GENERATED" in words:
        return ""
    value = [*_first_value(tokens[words.index("DEFAULT") + 1 :])]
    if all(_is_same(found[0]) for found in value):
        return ""
    return f"DEFAULT {column[value[0].start() : value[-1].end()]}"


def filled_by_server(column: str) -> str:
    """As `own_value`, and what an UPDATE that does not name the column gives it, `ON UPDATE CURRENT_TIMESTAMP`."""
    tokens = [found for found in _TOKEN.finditer(column) if not found[0].startswith("/*")]
    words = [found[0].upper() for found in tokens]
    told = [own_value(column)]
    for index, pair in enumerate(pairwise(words)):
        if pair == ("ON", "UPDATE"):
            value = [*_first_value(tokens[index + 2 :])]
            told.append(column[tokens[index].start() : value[-1].end()])
    return " ".join(filter(None, told))


def _first_value(tokens: Iterable[re.Match[str]]) -> Iterator[re.Match[str]]:
    """A literal with its sign or character set, or a name with all that its parentheses hold."""
    depth, before = 0, "+"
    for found in tokens:
        here = found[0]
        if not depth and here != "(" and not _goes_on(before):
            return
        yield found
        depth += (here == "(") - (here == ")")
        if not depth and here == ")":
            return
        before = here


def _goes_on(written: str) -> bool:
    """Whether a value is behind it: behind a sign, and what a literal begins with."""
    return written in "+-" or written.startswith("_") or written.lower() in ("b", "x", "n")


def _is_same(written: str) -> bool:
    return _WORD.fullmatch(written) is None or written.startswith("_") or written.lower() in _SAME
