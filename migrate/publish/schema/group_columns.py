"""What a statement on a source table of a group brings to the target tables, which other tables fill too.

The targets get it at the first table's statement, and have it before the others come to theirs. So it may only do what
rows of both definitions can be written beside: add columns that give the others' rows what their own statement will,
and widen types (docs/decisions/0056).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from migrate.model.table import Column
from migrate.mysql.column_defaults import columns, tokens
from migrate.mysql.quoting import printed
from migrate.state.schema_history import Version


@dataclass(frozen=True, slots=True)
class _Defined:
    """A column: its type with what it may hold, all else that its definition says but for its comment, and how its
    text is written."""

    type: str
    rest: str
    charset: str
    collation: str

    @property
    def told(self) -> str:
        return " ".join(filter(None, (self.type, self.rest, self.charset, self.collation)))


def brought(before: Version, after: Version) -> str:
    """The columns that are other ones afterwards, as JSON: two statements with the same text bring the same."""
    had, has = _defined(before), _defined(after)
    changed: dict[str, str] = {name: one.told for name, one in has.items() if had.get(name) != one}
    gone = dict.fromkeys(had.keys() - has.keys(), "")
    return json.dumps({**changed, **gone}, sort_keys=True, ensure_ascii=False)


def why_not_first(before: Version, after: Version) -> str:
    """Why the targets cannot have it before every table of the group does; "" where they can."""
    had, has = _defined(before), _defined(after)
    if had == has:
        return "no column is new or wider by it"
    return next((why for name, one in had.items() if (why := _kept(name, one, has.get(name)))), "") or next(
        (why for name, one in has.items() if name not in had and (why := _added(name, one))), ""
    )


def takes_more(before: Version, after: Version) -> bool:
    """Whether a table of the second definition takes every row of the first one as it is. A type that holds less is not
    seen here: no run lets it through."""
    had, has = _defined(before), _defined(after)
    return all(not _kept(name, one, has.get(name)) or _lets_null(one, has.get(name)) for name, one in had.items()) and (
        not any(_added(name, one) for name, one in has.items() if name not in had)
    )


def _lets_null(one: _Defined, other: _Defined | None) -> bool:
    """Whether NOT NULL goes beside a wider type; the default may be another one, as each row has the column."""
    if other is None or _kept("", one, replace(other, rest=one.rest)):
        return False
    words = {*other.rest.upper().split()}
    return one.rest.upper().startswith("NOT NULL") and words.isdisjoint(("NOT", "GENERATED", "CHECK"))


def _kept(name: str, one: _Defined, other: _Defined | None) -> str:
    if other is None:
        return f"column {name} is there no more, and rows of the group's other tables still have it"
    if (one.rest, one.charset, one.collation) != (other.rest, other.charset, other.collation):
        return f"column {name} gets more than a wider type"
    if one.type != other.type and "float" in (one.type.partition("(")[0], other.type.partition("(")[0]):
        return f"column {name} is a FLOAT, whose values another type holds otherwise"
    return ""


def _added(name: str, one: _Defined) -> str:
    words = one.rest.upper().split()
    filled = "DEFAULT" in words or "GENERATED" in words or "NOT" not in words
    return "" if filled else f"column {name} has no default, and rows of the group's other tables come without it"


def _defined(version: Version) -> dict[str, _Defined]:
    known: Mapping[str, Column] = version.table.by_name if version.table is not None else {}
    named = {printed(name): column for name, column in known.items()}
    return {name: _read(text, named.get(name)) for name, text in columns(version.create).items()}


def _read(text: str, column: Column | None) -> _Defined:
    """A server prints a column's character set by how it was made, not by what it is."""
    found = [*_without(tokens(text))]
    end = 1
    if found[1:2] == ["("]:
        end = found.index(")") + 1
    charset, collation = (column.charset or "", column.collation or "") if column is not None else ("", "")
    return _Defined("".join(found[:end]), " ".join(found[end:]), charset, collation)


def _without(found: Sequence[str]) -> Iterator[str]:
    """What tells columns apart: a comment does not, and the character set is known otherwise."""
    at = 0
    while at < len(found):
        word = found[at].upper()
        if word in ("COMMENT", "COLLATE"):
            at += 2
        elif word == "CHARACTER" and found[at + 1 : at + 2] and found[at + 1].upper() == "SET":
            at += 3
        else:
            yield found[at]
            at += 1
