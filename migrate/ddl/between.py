"""The ALTER TABLE that makes of one definition another one, where only their CREATE TABLE statements are known: an
online schema change put a table of the new definition in the place of the old one.

It is for target tables, so what these have not got is left out: foreign keys, new CHECKs, and where the files are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from migrate.ddl.definition import Definition, normal
from migrate.ddl.inverse import inverse, statement
from migrate.ddl.losses import kept
from migrate.model.errors import Code, StopError
from migrate.mysql.definition import anywhere, strip

_CREATED = re.compile(r"CREATE TABLE `((?:[^`]|``)+)`")
_DEFAULT = re.compile(r" DEFAULT CHARSET=(\w+)(?: COLLATE=(\w+))?")
_TEXT = re.compile(
    r"^(\s*`(?:[^`]|``)+` (?:char|varchar|tinytext|text|mediumtext|longtext|enum|set)\b"
    r"(?:\((?:[^()']|'(?:[^'\\]|\\.|'')*')*\))?+)"
    r"(?! CHARACTER SET| COLLATE)"
)


def between(before: str, after: str, named: str) -> str:
    """The statement; "" where nothing is to be done. A column is the same one where its name is.

    before, after: the CREATE TABLE statements. named: the table, quoted. Raises StopError where no statement is known.
    """
    others = _default(before) != _default(after)  # a column without a character set has another one then
    old, new = (_definition(create, explicit=others) for create in (before, after))
    if gone := [*(_checks(old) - _checks(new))]:
        raise StopError(
            f"the {gone[0]} goes, and the target tables have it under names of their own",
            hint="drop it there by hand",
            code=Code.STATEMENT,
        )
    clauses = inverse(new, old, kept(new, old, {}, ()))
    return statement(clauses, named) if clauses else ""


def _definition(create: str, *, explicit: bool) -> Definition:
    """explicit: with the character set of each column."""
    text = anywhere(strip(create))
    if explicit:
        text = "\n".join(_with_charsets(text))
    found = _CREATED.match(text)
    return normal(text, found[1].replace("``", "`") if found else "", {})


def _with_charsets(create: str) -> Iterator[str]:
    charset, collation = _default(create)
    own = f" CHARACTER SET {charset}" + (f" COLLATE {collation}" if collation else "")
    for line in create.split("\n"):
        yield _TEXT.sub(lambda found: found[1] + own, line) if charset else line


def _default(create: str) -> tuple[str, str]:
    """Character set and collation that a column has where it says none; "" where they are not printed."""
    found = _DEFAULT.search(create.partition("\n)")[2].partition("\n")[0])
    return (found[1], found[2] or "") if found else ("", "")


def _checks(definition: Definition) -> Counter[str]:
    return Counter(line for line in definition.others if line.startswith("CHECK "))
