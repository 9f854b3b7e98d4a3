"""Commands of this program as values: which one, in which direction, with which arguments.

A hint is a sentence that quotes commands (`migrate drain`). It is written for the stream that it is about; whoever
shows it gives each quoted command the direction in which it has to be typed (`as_typed`). One that says its direction
itself (`migrate --forward verify`, `migrate --reverse verify`) stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

_PROGRAM = "migrate"
_QUOTED = re.compile(r"`(migrate [^`\n]+)`")
OF_THE_MIGRATION = frozenset({"cutover", "rollback", "finish", "switch", "web"})
"""Commands that are about both streams, and take no direction."""
OF_WHO_LEADS = frozenset({"verify", "refresh", "explain"})
"""Commands that read one side as the truth: their direction is that of the stream that applications write into."""


class Direction(StrEnum):
    """The options that say it."""

    FORWARD = "--forward"
    REVERSE = "--reverse"


@dataclass(frozen=True, slots=True)
class Command:
    """words: the command's name, and what it is given. direction: None where it is that of the stream it is about."""

    words: tuple[str, ...]
    direction: Direction | None = None

    @classmethod
    def of(cls, text: str) -> Command:
        """From how it is typed: "migrate --reverse verify --repair", with or without the program's name."""
        words = tuple(text.split())
        words = words[1:] if words[:1] == (_PROGRAM,) else words
        told = words[0] if words else ""
        if told in set(Direction):
            return cls(words[1:], Direction(told))
        return cls(words)

    @property
    def name(self) -> str:
        """ "" where only options of the program itself are given."""
        return self.words[0] if self.words and not self.words[0].startswith("-") else ""

    def __str__(self) -> str:
        return " ".join([_PROGRAM, *([self.direction] if self.direction else []), *self.words])

    def towards(self, direction: Direction | None) -> Command:
        """The same in a direction; as it is where it has one, or takes none."""
        if self.direction is not None or not self.name or self.name in OF_THE_MIGRATION:
            return self
        return replace(self, direction=direction)


def as_typed(hint: str, change: Callable[[Command], Command]) -> str:
    """A hint, with each command that it quotes changed."""
    return _QUOTED.sub(lambda found: f"`{change(Command.of(found[1]))}`", hint)
