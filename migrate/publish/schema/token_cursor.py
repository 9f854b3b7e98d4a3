"""A statement's tokens, read one after the other; names of tables among them, and where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from migrate.publish.schema.sqltext import Token

Name = tuple[str, str]
"""(database, table)"""


@dataclass(frozen=True, slots=True)
class Mention:
    """A table's name in a statement, and where it stands."""

    name: Name
    start: int
    end: int


class TokenCursor:
    """ValueError where the next one is not as the grammar has it."""

    def __init__(self, found: Sequence[Token], database: str) -> None:
        self._tokens = found
        self._at = 0
        self._database = database

    @property
    def rest(self) -> Sequence[Token]:
        return self._tokens[self._at :]

    def word(self, *words: str) -> bool:
        """Take the next token if it is one of these words."""
        if self.rest and self.rest[0].is_word(*words):
            self._at += 1
            return True
        return False

    def words(self, *sequence: str) -> bool:
        """Take the next tokens if they are these words, in this order."""
        if len(self.rest) >= len(sequence) and all(
            token.is_word(word) for token, word in zip(self.rest, sequence, strict=False)
        ):
            self._at += len(sequence)
            return True
        return False

    def sign(self, sign: str) -> bool:
        if self.rest and self.rest[0].is_sign(sign):
            self._at += 1
            return True
        return False

    def take(self) -> Token:
        if not self.rest:
            raise ValueError("it ends early")
        self._at += 1
        return self._tokens[self._at - 1]

    def name(self) -> Token:
        token = self.take()
        if not token.is_name:
            raise ValueError(f"{token.text!r} stands where a name should")
        return token

    def table(self) -> Mention:
        first = self.name()
        if not self.sign("."):
            if not self._database:
                raise ValueError("there is no default database")
            return Mention((self._database, first.text), first.start, first.end)
        second = self.name()
        return Mention((first.text, second.text), first.start, second.end)

    def wait(self) -> None:
        """MariaDB's WAIT n, NOWAIT."""
        if self.word("WAIT"):
            self.take()
        else:
            self.word("NOWAIT")
