"""Which rows belong in a shard table by the forward stream's rule, where the reverse stream reads it.

To the reverse stream a shard table is a source, from which every row goes to one place: the rule that says in which
shard table a row belongs is the other stream's. Without it the two sides are equal for one of the streams alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pydantic import InstanceOf

from migrate.model.errors import StopError
from migrate.model.table import Column
from migrate.settings import TableSettings
from migrate.sharding.rule import TableRule


@dataclass(frozen=True)
class ShardRows:
    """Of one place of a rule: `index`. columns: the rule's, in its order. places: as people read them."""

    columns: tuple[Column, ...]
    rule: TableRule
    places: tuple[str, ...]
    index: int

    @property
    def place(self) -> str:
        """The shard table."""
        return self.places[self.index]

    @cached_property
    def condition(self) -> str | None:
        """SQL that is true for its rows, false or NULL for others; None where no server computes it."""
        return self.rule.condition(self.index)

    def belongs(self, columns: Sequence[Sequence[str | None]], rows: int) -> list[str]:
        """Where each row of a batch belongs, as people read it; "" for one that is at its place.

        columns: the canonical texts of each of `self.columns`.
        """
        try:
            routed = self.rule.route_many(columns, rows=rows)
        except StopError as error:  # of one of them
            if rows == 1:
                return [f"no place: {error.message}"]
            return [self.belongs([[text] for text in row], 1)[0] for row in zip(*columns, strict=True)]
        return ["" if index == self.index else self.places[index] for index in routed]


class ShardTable(TableSettings):
    """A shard table as a table of the reverse stream. No config file has one."""

    shard: InstanceOf[ShardRows]
