"""Why a run would not begin, one line for all shard tables of which the same is said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from migrate.model.words import some

if TYPE_CHECKING:
    from migrate.ddl.shards import Shard


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a run would not begin. hint: the way out."""

    what: str
    hint: str


def named(shards: Sequence[object]) -> str:
    """The first of some shard tables, and how many more there are."""
    return some([*map(str, shards)], 1)


def at_tables(found: Iterable[tuple[Shard, str, str]]) -> Iterator[Problem]:
    """A problem for each text and hint that are said of shard tables, of all of those.

    Texts that differ in the names of the database and of the shard table alone are one, as foreign keys and triggers
    have the table's name in theirs. The text of the first table stands for all.
    """
    told: dict[tuple[str, str], tuple[str, list[Shard]]] = {}
    for shard, what, hint in found:
        same = what.replace(shard.table, "\0").replace(f"{shard.database}.", "")
        told.setdefault((same, hint), (what, []))[1].append(shard)
    for (_, hint), (what, shards) in told.items():
        yield Problem(f"{named(shards)}: {what}", hint)
