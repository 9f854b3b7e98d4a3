"""What a change of a parent did to the rows that refer to it, by the rule of their foreign key."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from migrate.model.change import Key
from migrate.model.coordinate import Coordinate
from migrate.model.message import Message, Row
from migrate.target.cascades import Pair, pairs_of

Images = list[tuple[Key, Row]]
"""Rows as the target has them, with columns that matter."""


@dataclass(slots=True)
class MarkerEffect:
    """What the source did to rows that are found by their values.

    rule: "" where only a refresh was asked for. at: the last change that did it; None for a refresh. generation: of
    the rows. now: what they have since, by what they had.
    """

    gone: Images = field(default_factory=list)  # of rows that made way for others
    rule: str = ""
    at: Coordinate | None = None
    generation: int = 0
    now: dict[tuple[tuple[str, str | None], ...], Row] = field(default_factory=dict)

    @classmethod
    def by(cls, alike: Sequence[Message]) -> MarkerEffect:
        """alike: markers of one table, rule and generation."""
        found = cls([], alike[0].sql, max(one.coordinate for one in alike), alike[0].id)
        for message in alike:
            for was, now in pairs_of(message):
                found.now[tuple(was.items())] = dict.fromkeys(was) if now is None else now
        return found

    def became(self, image: Row, own: Collection[str], rows: Sequence[Row]) -> Sequence[Row | None]:
        """What became of a row that the target has; None: it went. Rather too much than too little, as who refers to it
        is read again and no more: what the rule says, and what the source has now, which may be from later.

        own: columns by which the table is a child itself.
        """
        ruled = self._ruled(image)
        if not rows:
            return [*ruled, None]
        # One whose own parent is another than the rule says may have gone, and have been inserted again.
        known = [image, *(one for one in ruled if one is not None)]
        gone: list[Row | None] = [
            None for row in rows[:1] if all(any(row.get(name) != one.get(name) for name in own) for one in known)
        ]
        return [*ruled, *rows, *gone]

    def _ruled(self, image: Row) -> list[Row | None]:
        if not self.rule:
            return []
        if self.rule == "ON DELETE CASCADE":
            return [None]
        empty = self.rule.endswith("SET NULL")
        meant = [now for was, now in self.now.items() if all(image.get(name) == value for name, value in was)]
        return [
            {**image, **(dict.fromkeys(now) if empty else now)}
            for now in meant or self.now.values()  # equal to the server alone
        ]

    def names(self, one: Pair) -> bool:
        """Whether the change says of rows of its own table what the pair says: that of a row that refers to itself."""
        was = self.now.get(tuple(one[0].items()))
        return was is not None and was == (one[1] or dict.fromkeys(one[0]))
