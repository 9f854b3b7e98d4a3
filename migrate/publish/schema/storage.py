"""What of a statement says in which files of its server a table, or a partition, is, or how the server is to change it:
no other server has these files, another version may know no such way, and neither makes a difference to what the table
is.

MySQL manual, "CREATE TABLE Statement", table_options and partition_options, "ALTER TABLE Statement"; MariaDB knowledge
base, "CREATE TABLE", "ALTER TABLE".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from migrate.publish.schema.sqltext import Token

_OPTIONS: Final = ("TABLESPACE", "ENCRYPTION", "ENCRYPTED", "ENCRYPTION_KEY_ID", "ALGORITHM", "LOCK")
_NO_OPTIONS: Final = (
    "ADD", "DROP", "MODIFY", "CHANGE", "ALTER", "RENAME", "ORDER", "CONVERT", "DISCARD", "IMPORT", "EXCHANGE",
)  # fmt: skip
"""What a clause begins with in which the words are names, but for those of partitions."""


def is_about(clause: Sequence[Token]) -> bool:
    """Whether a clause of an ALTER says nothing else."""
    return bool(clause) and len(clause) == len(_in_clause(clause))


def in_alter(clauses: Sequence[Sequence[Token]], commas: Sequence[Token]) -> list[Token]:
    """The tokens to leave out of an ALTER; commas: those between its clauses."""
    found: list[Token] = []
    first = next((number for number, clause in enumerate(clauses) if not is_about(clause)), len(clauses))
    found += commas[:first]
    for number, clause in enumerate(clauses):
        found += _in_clause(clause)
        if number > first and is_about(clause):
            found.append(commas[number - 1])
    return found


def in_create(options: Sequence[Token]) -> list[Token]:
    """The tokens to leave out of a CREATE TABLE, or a CREATE or DROP INDEX; options: what stands behind its columns."""
    found: list[Token] = []
    for piece in _pieces(options, options=True):
        before = options[piece[0] - 1] if piece[0] else None
        behind = options[piece[1]] if piece[1] < len(options) else None
        found += options[piece[0] : piece[1]]
        if before is not None and before.is_sign(",") and before.depth == 0:
            found.append(before)
        elif behind is not None and behind.is_sign(",") and behind.depth == 0 and before is None:
            found.append(behind)
    return found


def _in_clause(clause: Sequence[Token]) -> list[Token]:
    options = bool(clause) and not clause[0].is_word(*_NO_OPTIONS)
    return [token for first, end in _pieces(clause, options=options) for token in clause[first:end]]


def _pieces(found: Sequence[Token], *, options: bool) -> Iterator[tuple[int, int]]:
    """Where each option begins and ends; options: whether they may stand outside of parentheses."""
    at, of_partitions = 0, False
    while at < len(found):
        token = found[at]
        of_partitions = of_partitions or (token.depth == 0 and token.is_word("PARTITION"))
        may = (options and token.depth == 0) or (of_partitions and token.depth > 0 and _behind_name(found[at - 1]))
        end = _end(found, at) if may else at
        if end > at:
            yield at, end
        at = max(end, at + 1)


def _behind_name(before: Token) -> bool:
    """Whether an option of a partition may stand here; in an expression, or as a name, it may not."""
    return not before.is_word("PARTITION", "SUBPARTITION") and (before.kind != "sign" or before.text == ")")


def _end(found: Sequence[Token], at: int) -> int:
    """Where the option that begins here ends; here, if none does."""
    behind = at + 1
    if found[at].is_word("DATA", "INDEX") and behind < len(found) and found[behind].is_word("DIRECTORY"):
        behind += 1
    elif not found[at].is_word(*_OPTIONS):
        return at
    if behind < len(found) and found[behind].is_sign("="):
        behind += 1
    return behind + 1 if behind < len(found) and found[behind].kind != "sign" else at
