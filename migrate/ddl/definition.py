"""A table's definition in a normal form, so that two of them can be compared whatever their tables are called.

The lines of SHOW CREATE TABLE: columns in their order; keys and constraints in the order of their text, as their own
has no meaning and depends on when they were made. The counter of an auto-increment column is not in it. In names that a
server makes of the table's (`orders_1_chk_1`), `TABLE` stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from migrate.model.errors import Code, StopError
from migrate.mysql.connection import Connection
from migrate.mysql.definition import show_create_whole
from migrate.mysql.quoting import printed

TABLE = "\ue000"
_NAME = r"`(?:[^`]|``)+`"
_COLUMN = re.compile(rf"^({_NAME}) (.*)$", re.S)
_TYPE = re.compile(r"(\w+(?:\((?:[^()']|'(?:[^']|'')*')*\))?)(?: CHARACTER SET \w+)?(?: COLLATE \w+)?")
_KEY = re.compile(rf"^(PRIMARY KEY|(?:UNIQUE |FULLTEXT |SPATIAL |VECTOR )?KEY ({_NAME}))(.*)$", re.S)
_PART = re.compile(rf"({_NAME})(?: DESC)?(?:,|\))")
_OF_NO_ORDER = ("FULLTEXT", "SPATIAL", "VECTOR")
_CONSTRAINT = re.compile(rf"^CONSTRAINT ({_NAME}) (.*)$", re.S)
_HEAD = "CREATE TABLE t (\n"


@dataclass(frozen=True)
class Definition:
    """text: in normal form; the parts are read from it. "" stands for a table that is not there."""

    text: str

    @cached_property
    def _lines(self) -> list[str]:
        inside, _, _ = self.text.partition("\n)")
        return [line.strip().rstrip(",") for line in inside.split("\n")[1:]]

    @cached_property
    def columns(self) -> dict[str, str]:
        """What is behind each name, by the quoted name, in their order."""
        return {found[1]: found[2] for line in self._lines if (found := _COLUMN.match(line))}

    @cached_property
    def keys(self) -> dict[str, str]:
        """Each key's line by its quoted name; "" is the primary key's."""
        return {found[2] or "": line for line in self._lines if (found := _KEY.match(line))}

    def key_leading(self, columns: Sequence[str]) -> str | None:
        """A key that begins with the whole of these columns, in this order; None for none. All names are quoted."""
        wanted = [column.lower() for column in columns]
        for name, line in self.keys.items():
            parts = (_KEY.match(line) or [""] * 4)[3]
            at, leading = parts.index("(") + 1, list[str]()
            while (found := _PART.match(parts, at)) is not None:  # not behind a prefix or an expression
                leading.append(found[1].lower())
                at = found.end()
            if leading[: len(wanted)] == wanted and not line.startswith(_OF_NO_ORDER):
                return name or "PRIMARY KEY"
        return None

    @cached_property
    def constraints(self) -> dict[str, str]:
        """Foreign keys and checks: the line of each by its quoted name."""
        return {found[1]: line for line in self._lines if (found := _CONSTRAINT.match(line))}

    @cached_property
    def others(self) -> tuple[str, ...]:
        """Lines that are none of these: periods of MariaDB."""
        known = (_COLUMN, _KEY, _CONSTRAINT)
        return tuple(line for line in self._lines if not any(one.match(line) for one in known))

    @cached_property
    def options(self) -> str:
        return self.text.partition("\n)")[2].partition("\n")[0].strip()

    @cached_property
    def partitioning(self) -> str:
        return self.text.partition("\n)")[2].partition("\n")[2].strip()

    def create(self, name: str) -> str:
        """The statement that makes a table of this name."""
        bare = printed(name)[1:-1]
        return f"CREATE TABLE `{bare}` (\n" + self.text.removeprefix(_HEAD).replace(TABLE, bare)


def normal(create: str, table: str, collations: Mapping[str, tuple[str, str]]) -> Definition:
    """The normal form of a CREATE TABLE statement as the server prints it.

    collations: character set and collation of each text column, by its quoted name. MySQL prints them of a column
    depending on how that was made, not on what it is. Raises StopError where it is another statement.
    """
    lines = create.split("\n")
    end = next((number for number, line in enumerate(lines) if line.startswith(")")), None)
    if end is None or not lines[0].startswith("CREATE TABLE "):
        raise StopError(f"the definition of {table} is not as expected", hint="is it a table?", code=Code.DEFINITION)
    inside = [_collated(_without_table(line.strip().rstrip(","), table), collations) for line in lines[1:end]]
    ordered = [*_in_order(inside)]
    return Definition(_HEAD + ",\n".join(ordered) + "\n" + "\n".join(lines[end:]))


def _in_order(lines: list[str]) -> Iterator[str]:
    columns = [line for line in lines if _COLUMN.match(line)]
    keys = [line for line in lines if _KEY.match(line)]
    yield from columns
    yield from sorted(keys, key=lambda line: (not line.startswith("PRIMARY"), line))
    yield from sorted(line for line in lines if line not in columns and line not in keys)


def _collated(line: str, collations: Mapping[str, tuple[str, str]]) -> str:
    """A column's line, with its character set and collation where it has them."""
    found = _COLUMN.match(line)
    if found is None or found[1] not in collations or (kind := _TYPE.match(found[2])) is None:
        return line
    charset, collation = collations[found[1]]
    return f"{found[1]} {kind[1]} CHARACTER SET {charset} COLLATE {collation}{found[2][kind.end() :]}"


def _without_table(line: str, table: str) -> str:
    """A line whose made name begins with another letter that stands for the table's."""
    bare = re.escape(printed(table)[1:-1])
    return re.sub(rf"^(CONSTRAINT `){bare}(_(?:chk|ibfk)_\d+`)", lambda found: found[1] + TABLE + found[2], line)


def read(connection: Connection, database: str, table: str) -> Definition:
    """A table's definition as it is now; that of no text where there is no such table.

    Raises: StopError where it cannot be read; the driver's error.
    """
    sql = "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    if connection.one(sql, [database, table]) is None:
        return Definition("")
    texts = connection.query(
        "SELECT COLUMN_NAME, CHARACTER_SET_NAME, COLLATION_NAME FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND COLLATION_NAME IS NOT NULL",
        [database, table],
    )
    collations = {printed(str(name)): (str(charset), str(collation)) for name, charset, collation in texts}
    return normal(show_create_whole(connection, database, table), table, collations)


def differing(one: Definition, other: Definition) -> str:
    """The first lines that one has and the other has not, for people."""
    mine, theirs = one.text.split("\n"), other.text.split("\n")
    only = [line.strip().rstrip(",") for line in theirs if line not in mine]
    lacks = [line.strip().rstrip(",") for line in mine if line not in theirs]
    told = [*(f"has {line}" for line in only[:2]), *(f"lacks {line}" for line in lacks[:2])]
    return "; ".join(told).replace(TABLE, "TABLE")
